import { resolve } from 'node:path'
import { Secret } from '../plugin/secret.ts'
import { readRedisUrl } from '../util/redis-url.ts'
import type { PlainStoreAddress, StoreAddress } from './types.ts'

/** Reads `STORE`, or `STORE -> STORE` of a gateway that goes over from the first to the second; undefined when the text is neither. */
export const parseStoreAddress = (text: string, baseDir: string): StoreAddress | undefined => {
  const [first = '', second, ...more] = text.split(arrow)
  const from = parsePlainAddress(first, baseDir)
  if (second === undefined || more.length > 0) return more.length > 0 ? undefined : from
  const to = parsePlainAddress(second, baseDir)
  return from && to && { ...to, from }
}

const arrow = ' -> '

/** Reads `lmdb:PATH`, relative to `baseDir`, or a Redis URL. */
const parsePlainAddress = (text: string, baseDir: string): PlainStoreAddress | undefined => {
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

/** The text of an address, secrets included. */
export const revealStoreAddress = (address: StoreAddress): string => {
  const text = address.kind === 'lmdb' ? lmdbPrefix + address.path : address.url.reveal()
  return address.from === undefined ? text : revealStoreAddress(address.from) + arrow + text
}
