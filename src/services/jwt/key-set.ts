import type { JWTVerifyGetKey } from 'jose'
import type { Secret } from '../../plugin/secret.ts'
import type { Clock } from '../clock.ts'
import type { Log } from '../log.ts'
import type { Metrics } from '../metrics.ts'

/** jose, which is loaded only where tokens are accepted. */
export type Jose = typeof import('jose')

/** The keys that tokens are verified with. */
export interface KeySet {
  /** Differs once the keys have changed: a token that was verified before may have been signed by a key that is gone. */
  readonly version: number
  /** Resolves when the keys have been read for the first time, or could not be. */
  readonly loaded?: Promise<void>
  /** Rejects with KeySetUnavailable while no keys are known, and when the key of a token is not known and new keys cannot be fetched. */
  readonly getKey: JWTVerifyGetKey
  close(): void
}

/** No keys to verify a token with: that says nothing about the token. */
export class KeySetUnavailable extends Error {}

export interface KeySetServices {
  readonly jose: Jose
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  /** After keys were fetched, a token with an unknown key causes no other fetch for so long, in ms of the system's clock; 30 s unless given. */
  readonly cooldownMs?: number
}

/** A secret that the issuer shares with the gateway. */
export const secretKeySet = (secret: Secret): KeySet => {
  const key = Buffer.from(secret.reveal())
  return { version: 0, getKey: async () => key, close() {} }
}

/** A set of 100 keys takes 60 KiB. */
const maxKeySetBytes = 1_048_576

/** The text of the key set at the URL; rejects with the reason in words when there is none. Redirects are not followed. */
export const fetchKeySet = async (url: URL, init: RequestInit, { createLocalJWKSet }: Pick<Jose, 'createLocalJWKSet'>): Promise<string> => {
  const response = await fetch(url, { ...init, redirect: 'manual' }).catch(describeFailure)
  if (response.status !== 200) {
    await response.body?.cancel()
    throw new Error(
      response.status >= 300 && response.status < 400 ? `redirects are not followed: HTTP ${response.status}` : `HTTP ${response.status}`,
    )
  }
  const text = await readBounded(response).catch(describeFailure)
  try {
    createLocalJWKSet(JSON.parse(text))
  } catch {
    throw new Error('the response is not a JSON Web Key Set')
  }
  return text
}

const timeoutMs = 5_000

/** Why the keys cannot be fetched now; undefined when they can. */
export const findKeySetFailure = async (url: string): Promise<string | undefined> => {
  try {
    await fetchKeySet(new URL(url), { signal: AbortSignal.timeout(timeoutMs) }, await import('jose'))
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

const readBounded = async ({ body }: Response): Promise<string> => {
  const chunks: Uint8Array[] = []
  let byteLength = 0
  for await (const chunk of body ?? []) {
    chunks.push(chunk)
    byteLength += chunk.length
    if (byteLength > maxKeySetBytes) throw new Error('the response is larger than 1 MiB')
  }
  return Buffer.concat(chunks).toString()
}

/** fetch() has the reason in its cause: `fetch failed` says nothing. */
const describeFailure = (error: unknown): never => {
  const { name = '', message = '', cause }: Partial<Error> = error instanceof Error ? error : {}
  if (name === 'TimeoutError') throw new Error('no answer in time')
  const { code, message: detail }: { readonly code?: unknown; readonly message?: unknown } = cause instanceof Error ? cause : {}
  throw new Error(String(code ?? detail ?? message))
}
