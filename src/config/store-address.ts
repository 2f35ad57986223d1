import { resolve } from 'node:path'
import { parseRedisUrl } from './redis-url.ts'
import type { StoreAddress } from './types.ts'

/** Reads `lmdb:PATH`, relative to `baseDir`, or a Redis URL; undefined when the text is neither. */
export const parseStoreAddress = (text: string, baseDir: string): StoreAddress | undefined => {
  if (text.startsWith(lmdbPrefix)) {
    const path = text.slice(lmdbPrefix.length)
    return path === '' ? undefined : { kind: 'lmdb', path: resolve(baseDir, path) }
  }
  const url = parseRedisUrl(text)
  return url && { kind: 'redis', url }
}

const lmdbPrefix = 'lmdb:'
