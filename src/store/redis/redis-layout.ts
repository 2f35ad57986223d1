import { mustReadRedisUrl } from '../../util/redis-url.ts'
import type { RedisAddress } from '../../config/types.ts'
import { keySlot, slotCount } from './redis-slots.ts'

/** The hash of a table of the store: see Engine. A cluster places keys by the part in braces: those of one commit have the same. */
export const tableKey = (tag: string, table: string): string => `tollgate:{${tag}}:${table}`

/** Nodes of a cluster have ranges of slots: each of so many equal ranges has a tag of usage. */
const usageTagCount = 64

const usageRangeOf = (text: string): number => Math.floor((keySlot(text) * usageTagCount) / slotCount)

/** In each range the first of `usage0`, `usage1`, … that is in it. */
export const usageTags: readonly string[] = (() => {
  const byRange = new Map<number, string>()
  for (let i = 0; byRange.size < usageTagCount; i += 1)
    if (!byRange.has(usageRangeOf(`usage${i}`))) byRange.set(usageRangeOf(`usage${i}`), `usage${i}`)
  return Array.from({ length: usageTagCount }, (_, range) => byRange.get(range) ?? '')
})()

/** In the range of the account's own slot: the cluster's nodes share usage as they share accounts. */
export const usageTagOf = (account: string): string => usageTags[usageRangeOf(account)] ?? ''

export const tableKeyPattern = 'tollgate:{*'

/** Undefined for a key that is no table of the store. */
export const parseTableKey = (key: string): readonly [tag: string, table: string] | undefined => {
  const [, tag = '', table = ''] = /^tollgate:\{([^}]*)\}:(.*)$/s.exec(key) ?? []
  return table === '' || key === redisKeys.height(table) || key === redisKeys.tokens(tag) ? undefined : [tag, table]
}

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

/** Channel of changes of accounts and keys: `<publisher> <group of accounts>`. */
export const changesChannelOf = channelOf('tollgate:news')

/** Reported heights are published here: `<height> <sender> <network>`. */
export const heightsChannelOf = channelOf('tollgate:heights')

/** Nobody listens here. */
export const rightsChannel = 'tollgate:rights'

/** Incremented when an older Tollgate would misread keys or rows. */
export const layoutVersion = 2
