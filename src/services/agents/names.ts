import { lookup } from 'node:dns'
import type { LookupFunction } from 'node:net'

/**
 * Resolves host names, each only once at a time: a look-up holds one of the few threads of the process for as long as the
 * name server takes, and with it other names, compressed answers and the disk.
 */
export const openNames = (resolve: LookupFunction = lookup as LookupFunction): LookupFunction => {
  const asked = new Map<string, Callback[]>()
  return (host, options, callback) => {
    const name = JSON.stringify([host, options.family, options.hints, options.all])
    const waiting = asked.get(name)
    if (waiting !== undefined) return void waiting.push(callback)
    const all = [callback]
    asked.set(name, all)
    resolve(host, options, (...found) => {
      asked.delete(name)
      for (const each of all) each(...found)
    })
  }
}

type Callback = Parameters<LookupFunction>[2]
