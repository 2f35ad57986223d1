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
