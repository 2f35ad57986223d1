import { resolve } from 'node:path'
import { Secret } from '../plugin/secret.ts'
import { normalizeHost } from './addresses.ts'
import type { StoreAddress } from './types.ts'

/** Reads `lmdb:PATH`, relative to `base`, or a Redis URL; undefined when the text is neither. */
export const parseStoreAddress = (text: string, baseDir: string): StoreAddress | undefined => {
  if (text.startsWith(lmdbPrefix)) {
    const path = text.slice(lmdbPrefix.length)
    return path === '' ? undefined : { kind: 'lmdb', path: resolve(baseDir, path) }
  }
  const url = parseRedisUrl(text)
  return url && { kind: 'redis', url }
}

/** A Secret that shows host and port; undefined when the text is no Redis URL. */
export const parseRedisUrl = (text: string): Secret | undefined => {
  const url = /^rediss?:\/\//.test(text) && URL.canParse(text) ? new URL(text) : undefined
  return url && isSupportedRedisUrl(url) ? new Secret(text, `${url.hostname}:${url.port || defaultRedisPort}`) : undefined
}

const lmdbPrefix = 'lmdb:'
const defaultRedisPort = 6379

/** The database is a number; what else a URL may hold would have no effect. */
const isSupportedRedisUrl = ({ hostname, pathname, search, hash, username, password }: URL): boolean =>
  normalizeHost(hostname) !== undefined &&
  /^(\/\d*)?$/.test(pathname) &&
  search === '' &&
  hash === '' &&
  isPercentEncoded(username) &&
  isPercentEncoded(password)

const isPercentEncoded = (text: string): boolean => {
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}
