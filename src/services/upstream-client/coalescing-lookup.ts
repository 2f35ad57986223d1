import { lookup } from 'node:dns'
import type { LookupFunction } from 'node:net'

type LookupCallback = Parameters<LookupFunction>[2]

/**
 * Resolves host names, each only once at a time: a DNS lookup holds one of the few threads of the process for as long as the
 * name server takes, and so delays other names, decompression and the disk.
 */
export const createCoalescingLookup = (resolve: LookupFunction = lookup as LookupFunction): LookupFunction => {
  const pendingLookups = new Map<string, LookupCallback[]>()
  return (host, options, callback) => {
    const key = JSON.stringify([host, options.family, options.hints, options.all])
    const pending = pendingLookups.get(key)
    if (pending !== undefined) return void pending.push(callback)
    const callbacks = [callback]
    pendingLookups.set(key, callbacks)
    resolve(host, options, (...result) => {
      pendingLookups.delete(key)
      for (const each of callbacks) each(...result)
    })
  }
}
