import type { RedisAddress } from '../../src/config/types.ts'
import { Secret } from '../../src/plugin/secret.ts'
import { localPlace, startRedisServerAt, startSentinel, tlsOptions } from './redis-server.ts'
import type { RedisServer, ServerPlace } from './redis-server.ts'
import { waitUntil } from './wait-until.ts'

/** A real Redis with replicas, and three Sentinels that choose one of them when it is silent for a second. */
export interface SentinelDeployment {
  /** The first is the primary at the start. */
  readonly servers: readonly RedisServer[]
  readonly sentinels: readonly RedisServer[]
  /** Names the Sentinels. With credentials, `USER:PASSWORD@`, for the Redis. */
  addressWith(credentials?: string): RedisAddress
  /** The same with TLS. Only with `tls`. */
  tlsUrlWith(credentials: string): string
  remove(): Promise<void>
}

const sentinelCount = 3
const quorum = 2

/** `options` are those of each redis-server. With `tls` all use it among each other. The primary runs in `firstPlace`. */
export const startSentinelDeployment = async (
  replicaCount: number,
  options: readonly string[],
  { tls = false, place = localPlace, firstPlace = localPlace } = {},
): Promise<SentinelDeployment> => {
  const start = async (at: ServerPlace, ...own: readonly string[]) =>
    startRedisServerAt(at, ...options, ...(tls ? [...(await tlsOptions()), '--tls-replication', 'yes'] : []), ...own)
  const primary = await start(firstPlace)
  const startReplica = () => start(place, '--replicaof', primary.host, `${primary.tlsPort ?? primary.port}`)
  const replicas = await Promise.all(Array.from({ length: replicaCount }, startReplica))
  const sentinels = await Promise.all(Array.from({ length: sentinelCount }, () => startSentinel(primary, quorum, place)))
  const knowsAll = async (sentinel: RedisServer): Promise<boolean> => {
    const state = JSON.stringify(await sentinel.send('SENTINEL', 'MASTER', 'main'))
    return state.includes(`"num-other-sentinels","${sentinelCount - 1}"`) && state.includes(`"num-slaves","${replicaCount}"`)
  }
  await waitUntil(async () => (await Promise.all(sentinels.map(knowsAll))).every(Boolean))
  await waitUntil(async () => String(await primary.send('INFO', 'replication')).split('state=online').length > replicaCount)
  const hosts = sentinels.map(({ host, port }) => `${host}:${port}`).join(',')
  return {
    servers: [primary, ...replicas],
    sentinels,
    addressWith: (credentials = '') => ({ kind: 'redis', url: new Secret(`redis+sentinel://${credentials}${hosts}/main`, hosts) }),
    tlsUrlWith: credentials =>
      `rediss+sentinel://${credentials}${sentinels.map(({ host, tlsPort }) => `${host}:${tlsPort}`).join(',')}/main`,
    async remove() {
      await Promise.all([...sentinels, primary, ...replicas].map(server => server.remove()))
    },
  }
}
