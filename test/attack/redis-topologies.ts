import { readdirSync, statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { Secret } from '../../src/plugin/secret.ts'
import type { Distance } from '../support/distance.ts'
import type { NetworkNamespace } from '../support/network-namespace.ts'
import { startRedisCluster } from '../support/redis-cluster.ts'
import { startSentinelDeployment } from '../support/redis-sentinel.ts'
import { localPlace, startRedisServer } from '../support/redis-server.ts'
import type { RedisServer } from '../support/redis-server.ts'
import { waitUntil } from '../support/wait-until.ts'

/** Redises of which one can take the place of another. */
export interface RedisTopology {
  /** With the credentials of a user. */
  readonly url: string
  /** Of one of the primaries, that which runs in the namespace where there is one. */
  readonly primary: RedisServer
  /** Those that may replace it. */
  readonly replicas: readonly RedisServer[]
  /** Of all servers that gateways connect to. */
  readonly ports: readonly number[]
  /** The command that lets a replica take over while the primary is well. */
  takeOver(): Promise<unknown>
  /** Resolves once gateways are told that a replica is the primary: a cluster tells when it is. */
  untilAnnounced(): Promise<void>
  remove(): Promise<void>
}

export interface TopologyOptions {
  /** Of each redis-server. */
  readonly options: readonly string[]
  /** `USER:PASSWORD@`. */
  readonly credentials: string
  /** Of one primary. */
  readonly namespace: NetworkNamespace | undefined
}

const placesOf = (namespace: NetworkNamespace | undefined) =>
  namespace === undefined
    ? { place: localPlace, primaryPlace: localPlace }
    : {
        place: { host: namespace.stores.here, command: [] },
        primaryPlace: { host: namespace.stores.there, command: namespace.command },
      }

export const openCluster = async ({ options, credentials, namespace }: TopologyOptions): Promise<RedisTopology> => {
  const { place, primaryPlace } = placesOf(namespace)
  const cluster = await startRedisCluster({ withReplicas: true, options, place, lastPlace: primaryPlace })
  const { address, primaries, replicas, remove } = cluster
  const [primary, replica] = [primaries.at(-1), replicas.at(-1)] as [RedisServer, RedisServer] // three
  return {
    url: address.url.reveal().replace('//', `//${credentials}`),
    primary,
    replicas: [replica],
    ports: portsOf([...primaries, ...replicas]),
    takeOver: () => replica.send('CLUSTER', 'FAILOVER'),
    untilAnnounced: async () => undefined,
    remove,
  }
}

export const openSentinels = async ({ options, credentials, namespace }: TopologyOptions): Promise<RedisTopology> => {
  const { place, primaryPlace } = placesOf(namespace)
  const { servers, sentinels, addressWith, remove } = await startSentinelDeployment(2, options, { place, firstPlace: primaryPlace })
  const [primary, ...replicas] = servers as [RedisServer, ...RedisServer[]] // a primary first
  return {
    url: addressWith(credentials).url.reveal(),
    primary,
    replicas,
    ports: portsOf([...servers, ...sentinels]),
    takeOver: async () => sentinels[0]?.send('SENTINEL', 'FAILOVER', 'main'),
    untilAnnounced: () => waitUntil(async () => (await Promise.all(sentinels.map(namedPort))).every(port => port !== `${primary.port}`)),
    remove,
  }
}

const portsOf = (servers: readonly RedisServer[]): readonly number[] => servers.map(({ port }) => port)

const namedPort = async (sentinel: RedisServer): Promise<unknown> =>
  ((await sentinel.send('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'main')) as readonly unknown[])[1] // host and port

/** One Redis, which nothing replaces. */
export const openSingle = async ({ options, credentials }: TopologyOptions): Promise<RedisTopology> => {
  const primary = await startRedisServer(...options)
  return {
    url: primary.url.replace('//', `//${credentials}`),
    primary,
    replicas: [],
    ports: [primary.port],
    takeOver: async () => undefined,
    untilAnnounced: async () => undefined,
    remove: () => primary.remove(),
  }
}

export const addressOf = ({ url }: RedisTopology) => ({ kind: 'redis', url: new Secret(url, 'redis') }) as const

const roleOf = async (server: RedisServer): Promise<unknown> => ((await server.send('ROLE').catch(() => [])) as readonly unknown[])[0]

const untilReplaced = ({ replicas }: RedisTopology): Promise<void> =>
  waitUntil(async () => (await Promise.all(replicas.map(roleOf))).includes('master'))

/** A primary that was cut off stays so after it was replaced. */
const cutOffMs = 5_000
/** Longer than leases last. */
const outOfReachMs = 15_000
/** How long replicas have nothing of what is written. */
const lagMs = 1_500
/** What a power cut loses, by Redis' documentation at most. */
const unsyncedMs = 2_000
/** How long memory is full. */
const fullMs = 3_000

/** That of the gateway which is not beside the others. */
type Link = Pick<Distance, 'cut' | 'heal'>

/** What happens to a primary, up to the moment in which another has its place, or it is well again. */
export const failures = {
  killed: async (topology: RedisTopology) => {
    await topology.primary.kill()
    await untilReplaced(topology)
    await topology.untilAnnounced()
    await topology.primary.restart()
  },
  /** Sentinels still name it, and a replica that they have not told of the new primary follows it again. */
  'killed and started again in a failover': async (topology: RedisTopology) => {
    await topology.primary.kill()
    await untilReplaced(topology)
    await topology.primary.restart()
  },
  'killed and started again': async ({ primary }: RedisTopology) => {
    await primary.kill()
    await setTimeout(1_000)
    await primary.restart()
  },
  /** The disk has what was synced, which is by `everysec` a second or two old. */
  'power cut': async ({ primary }: RedisTopology) => {
    const [, dir] = (await primary.send('CONFIG', 'GET', 'dir')) as readonly string[] // as Redis promises
    const folder = join(String(dir), 'appendonlydir')
    const file = join(folder, readdirSync(folder).find(name => name.endsWith('.incr.aof')) ?? '')
    const syncedBytes = statSync(file).size
    await setTimeout(unsyncedMs)
    await primary.kill()
    truncateSync(file, syncedBytes)
    await primary.restart()
  },
  'replaced by command': async (topology: RedisTopology) => {
    await topology.takeOver()
    await untilReplaced(topology)
  },
  /** It comes back with old data. */
  paused: async (topology: RedisTopology) => {
    topology.primary.pause()
    await untilReplaced(topology)
    topology.primary.resume()
  },
  'cut off with a gateway': async (topology: RedisTopology, link: Link | undefined) => {
    link?.cut()
    await untilReplaced(topology)
    await setTimeout(cutOffMs)
    link?.heal()
  },
  /** All Redises are well, and the distant gateway does not reach them. */
  'out of reach of a gateway': async (_: RedisTopology, link: Link | undefined) => {
    link?.cut()
    await setTimeout(outOfReachMs)
    link?.heal()
  },
  'killed while replicas lag': async (topology: RedisTopology) => {
    for (const replica of topology.replicas) replica.pause()
    await setTimeout(lagMs)
    await topology.primary.kill()
    for (const replica of topology.replicas) replica.resume()
    await untilReplaced(topology)
    await topology.untilAnnounced()
    await topology.primary.restart()
  },
  'out of memory': async ({ primary }: RedisTopology) => {
    await primary.send('CONFIG', 'SET', 'maxmemory', '1')
    await setTimeout(fullMs)
    await primary.send('CONFIG', 'SET', 'maxmemory', '0')
  },
  /** A running Redis is told to drop keys: `start` refuses one that does. */
  'dropping keys': async ({ primary }: RedisTopology) => {
    const [, used] = /used_memory:(\d+)/.exec(String(await primary.send('INFO', 'memory'))) ?? []
    await primary.send('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru', 'maxmemory', `${Number(used) - 20_000}`)
    await setTimeout(fullMs)
    await primary.send('CONFIG', 'SET', 'maxmemory', '0')
  },
} as const

export type FailureName = keyof typeof failures
