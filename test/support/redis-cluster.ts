import type { RedisAddress } from '../../src/config/types.ts'
import { Secret } from '../../src/plugin/secret.ts'
import { slotCount } from '../../src/store/redis/redis-slots.ts'
import { freePort } from './free-port.ts'
import { localPlace, startRedisServerAt, tlsOptions } from './redis-server.ts'
import type { RedisServer, ServerPlace } from './redis-server.ts'
import { waitUntil } from './wait-until.ts'

/** A real cluster of redis-servers for one test. */
export interface RedisCluster {
  readonly primaries: readonly RedisServer[]
  /** One of each primary, in the same order; none unless asked for. */
  readonly replicas: readonly RedisServer[]
  /** Names all nodes. */
  readonly address: RedisAddress
  /** The same with TLS and credentials, `USER:PASSWORD@`. Only with `tls`. */
  tlsUrlWith(credentials: string): string
  /** Waits until each node says that all slots are served. */
  settled(): Promise<void>
  remove(): Promise<void>
}

/** A primary that is silent for so long is replaced by its replica. */
const nodeTimeoutMs = 1_000

/**
 * Three primaries with a third of the slots each unless given. With `tls` they use it among each other. The last one, which has
 * the accounts, runs in `lastPlace`. `options` are those of redis-server.
 */
export const startRedisCluster = async ({
  primaryCount = 3,
  withReplicas = false,
  tls = false,
  place = localPlace,
  lastPlace = localPlace,
  options = [] as readonly string[],
} = {}): Promise<RedisCluster> => {
  const start = async (at: ServerPlace) => {
    const busPort = await freePort()
    const clusterOptions = ['--cluster-enabled', 'yes', '--cluster-node-timeout', `${nodeTimeoutMs}`, '--cluster-port', `${busPort}`]
    const ofTls = tls ? [...(await tlsOptions()), '--tls-cluster', 'yes', '--tls-replication', 'yes'] : []
    return { server: await startRedisServerAt(at, ...clusterOptions, ...ofTls, ...options), busPort }
  }
  const nodeCount = withReplicas ? 2 * primaryCount : primaryCount
  const nodes = await Promise.all(Array.from({ length: nodeCount }, (_, i) => start(i === primaryCount - 1 ? lastPlace : place)))
  const servers = nodes.map(({ server }) => server)
  const primaries = servers.slice(0, primaryCount)
  const replicas = servers.slice(primaryCount)
  const [first] = servers as [RedisServer] // at least one primary
  const share = Math.ceil(slotCount / primaryCount)
  for (const [i, primary] of primaries.entries()) {
    await primary.send('CLUSTER', 'SET-CONFIG-EPOCH', `${i + 1}`)
    await primary.send('CLUSTER', 'ADDSLOTSRANGE', `${i * share}`, `${Math.min(slotCount, (i + 1) * share) - 1}`)
  }
  for (const { server, busPort } of nodes.slice(1)) {
    await first.send('CLUSTER', 'MEET', server.host, `${server.tlsPort ?? server.port}`, `${busPort}`)
  }
  const allSay = (text: string) => async () => {
    const infos = await Promise.all(servers.map(server => server.send('CLUSTER', 'INFO').catch(() => '')))
    return infos.every(info => String(info).includes(text))
  }
  await waitUntil(allSay(`cluster_known_nodes:${servers.length}`))
  for (const [i, replica] of replicas.entries()) {
    await replica.send('CLUSTER', 'REPLICATE', String(await primaries[i]?.send('CLUSTER', 'MYID')))
  }
  // Before, a write that waits for its replica may fail.
  const isFollowed = async (primary: RedisServer) => String(await primary.send('INFO', 'replication')).includes('state=online')
  await waitUntil(async () => !withReplicas || (await Promise.all(primaries.map(isFollowed))).every(Boolean))
  await waitUntil(allSay('cluster_state:ok'))
  const hosts = servers.map(({ host, port }) => `${host}:${port}`).join(',')
  return {
    primaries,
    replicas,
    address: { kind: 'redis', url: new Secret(`redis://${hosts}`, hosts) },
    tlsUrlWith: credentials => `rediss://${credentials}${servers.map(({ host, tlsPort }) => `${host}:${tlsPort}`).join(',')}`,
    settled: () => waitUntil(allSay('cluster_state:ok')),
    async remove() {
      await Promise.all(servers.map(server => server.remove()))
    },
  }
}
