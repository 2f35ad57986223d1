import { mustReadRedisUrl } from '../../util/redis-url.ts'
import type { RedisAddress } from '../../config/types.ts'

/** The hash of a table of the store: see Engine. A cluster places keys by the part in braces: those of one commit have the same. */
export const tableKey = (tag: string, table: string): string => `tollgate:{${tag}}:${table}`

/** Every other key in Redis. */
export const redisKeys = {
  /** String: the version of this layout. */
  version: 'tollgate:version',

  /** Hash of a bucket of `rate-limit`: `tokens`, and the time `at` which it had them, in ms since 1970. Expires when the bucket is full. */
  tokens: (bucket: string): string => `tollgate:{${bucket}}:tokens`,

  /** String: the greatest height that a gateway has reported lately, for a network (its name and chain ID). */
  height: (network: string): string => `tollgate:{heights}:${network}`,
} as const

/** Databases share their channels: without its number, installations in two databases of one Redis would get each other's messages. */
const channelOf =
  (name: string) =>
  ({ url }: Pick<RedisAddress, 'url'>): string => {
    const { database } = mustReadRedisUrl(url.reveal())
    return database === 0 ? name : `${name}:${database}`
  }

/** Channel of changes of accounts and keys; the message is the publisher's random id. */
export const changesChannelOf = channelOf('tollgate:news')

/** Reported heights are published here: `<height> <sender> <network>`. */
export const heightsChannelOf = channelOf('tollgate:heights')

/** Nobody listens here. */
export const rightsChannel = 'tollgate:rights'

/** Incremented when an older Tollgate would misread keys or rows. */
export const layoutVersion = 1
