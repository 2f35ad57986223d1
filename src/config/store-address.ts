import { resolve } from 'node:path'
import { Secret } from '../plugin/secret.ts'
import { readRedisUrl } from '../util/redis-url.ts'
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

/** A Secret that shows the hosts with their ports; undefined when the text is no Redis URL. */
export const parseRedisUrl = (text: string): Secret | undefined => {
  const url = readRedisUrl(text)
  return url && new Secret(text, url.hosts.join(','))
}
