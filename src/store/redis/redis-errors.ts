import { SocketTimeoutError } from '@redis/client'
import { StoreError } from '../store.ts'

/** The AggregateError of an attempt on several addresses has no message of its own, and that of a silent connection is no sentence. */
export const errorMessage = (error: unknown): string => {
  if (error instanceof SocketTimeoutError) return 'the connection is silent: Redis hangs, or cannot be reached'
  if (error instanceof AggregateError) return errorMessage(error.errors[0])
  return error instanceof Error ? error.message : String(error)
}

/** What the operator can do about an error of Redis, by its code. */
const fixes: readonly (readonly [codes: RegExp, fix: string])[] = [
  [/^connect ECONNREFUSED /, 'start it, or correct its address'],
  [/^getaddrinfo /, 'check the host of `store` in gateway.yaml'],
  [/^OOM /, 'raise its maxmemory, or make room in it'],
  [/^MISCONF /, 'make room on its disk, or repair its snapshots'],
  [/^READONLY /, 'let `store` in gateway.yaml name an address that always leads to the primary'],
  [/^(NOAUTH|WRONGPASS|NOPERM) /, 'check the user, the password and the rights of `store` in gateway.yaml'],
  [/^(MOVED|ASK) /, 'let `store` in gateway.yaml name one Redis: the gateway does not follow the nodes of a cluster'],
]

/** Where in a script an error happened stands before it in Redis 6 and older, and behind it in Redis 7: it says nothing about these errors. */
export const withoutScript = (reason: string): string =>
  reason.replace(/^ERR Error running script .*: -/, '').replace(/\.?( script: \w+, on @user_script:\d+)?\.?\s*$/, '')

/** The error, with what the operator can do about it where that is known. */
export const withFix = (reason: string): string => {
  const error = withoutScript(reason)
  const fix = fixes.find(([codes]) => codes.test(error))?.[1]
  return fix === undefined ? reason : `${error}; ${fix}`
}

/** Of a reply that cannot be that of its command: the replies of a connection have come apart from its commands. */
export const outOfSyncError = (): StoreError => new StoreError('redis has sent a reply that belongs to another command')
