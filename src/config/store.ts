import { resolve } from 'node:path'
import { Secret } from '../secret.ts'
import { normaliseHost } from './address.ts'
import type { StoreAddress } from './types.ts'

/** Reads `lmdb:PATH`, relative to `base`, or a Redis URL; undefined when the text is neither. */
export const parseStore = (text: string, base: string): StoreAddress | undefined => {
  if (text.startsWith(lmdb)) {
    const path = text.slice(lmdb.length)
    return path === '' ? undefined : { kind: 'lmdb', path: resolve(base, path) }
  }
  const url = parseRedis(text)
  return url && { kind: 'redis', url }
}

/** A Secret that shows host and port; undefined when the text is no Redis URL. */
export const parseRedis = (text: string): Secret | undefined => {
  const url = /^rediss?:\/\//.test(text) && URL.canParse(text) ? new URL(text) : undefined
  return url && isRedis(url) ? new Secret(text, `${url.hostname}:${url.port || defaultPort}`) : undefined
}

const lmdb = 'lmdb:'
const defaultPort = 6379

/** The database is a number; what else a URL may hold would have no effect. */
const isRedis = ({ hostname, pathname, search, hash, username, password }: URL): boolean =>
  normaliseHost(hostname) !== undefined &&
  /^(\/\d*)?$/.test(pathname) &&
  search === '' &&
  hash === '' &&
  isEncoded(username) &&
  isEncoded(password)

const isEncoded = (text: string): boolean => {
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}
