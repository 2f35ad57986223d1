import { createRequire } from 'node:module'
import type * as Undici from 'undici'

type UndiciParts = Pick<typeof Undici, 'Client' | 'buildConnector'>

/**
 * Two parts of undici by their files, which undici does not promise to keep (package.json pins its version): the whole of it,
 * with fetch and WebSocket, takes three times as long to load (70 ms more). Where the files are not there, the whole is loaded.
 */
export const loadUndici = (load: (path: string) => unknown = createRequire(import.meta.url)): UndiciParts => {
  try {
    const parts = { Client: load('undici/lib/dispatcher/client.js'), buildConnector: load('undici/lib/core/connect.js') }
    if (isComplete(parts)) return parts
  } catch {}
  return load('undici') as UndiciParts
}

const isComplete = (parts: Readonly<Record<keyof UndiciParts, unknown>>): parts is UndiciParts =>
  typeof parts.Client === 'function' && 'dispatch' in parts.Client.prototype && typeof parts.buildConnector === 'function'

export const { Client, buildConnector } = loadUndici()
