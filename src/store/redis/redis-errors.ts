import { ClientOfflineError, SocketTimeoutError } from '@redis/client'
import { StoreError } from '../store.ts'

/** Redis takes connections, and answers nothing. */
export class SilentConnectionError extends Error {
  constructor() {
    super('the connection is silent: Redis hangs, or cannot be reached')
  }
}

/** The AggregateError of an attempt on several addresses has no message of its own, and that of a silent connection is no sentence. */
export const errorMessage = (error: unknown): string => {
  // Of a Sentinel.
  if (error instanceof SocketTimeoutError) return new SilentConnectionError().message
  if (error instanceof ClientOfflineError) return 'the connection was lost'
  if (error instanceof AggregateError) return errorMessage(error.errors[0])
  return shorten(error instanceof Error ? error.message : String(error))
}

/** Without the arguments of an unknown command, such as a whole script, and with the words of OpenSSL alone. */
const shorten = (message: string): string =>
  message
    .replace(/, with args beginning with:.*$/s, '')
    .replace(/^\w+:error:\w+:[^:]*:[^:]*:([^:]+):.*$/s, 'TLS: $1')
    .trim()

type Fixes = readonly (readonly [errors: RegExp, fix: string])[]

/**
 * What the operator can do about an error of Redis, or of the connection to it; `$1` is the first group of the expression. The address may be
 * that of `store`, of a cache, or an argument of a command.
 */
const fixes: Fixes = [
  [/^connect ECONNREFUSED /, 'start it, or correct its address'],
  [/^getaddrinfo /, 'correct the host in its address'],
  [/^OOM /, 'raise its maxmemory, or make room in it'],
  [/^MISCONF /, 'make room on its disk, or repair its snapshots'],
  [/^NOREPLICAS /, 'start its replicas, or lower its min-replicas-to-write'],
  [/^(READONLY|MASTERDOWN) /, 'name the primary in its address, or Sentinels with redis+sentinel://'],
  [/publish to the channel|access (one of the channels|a channel)/, 'give its user the channels `&tollgate:*`'],
  [/^(NOAUTH|WRONGPASS) /, 'correct the user and the password in its address'],
  [/^NOPERM .* run the '([^']+)' command/, 'give its user the right `+$1`, and the others that docs/store.md names'],
  [/^NOPERM .* access (one of the keys|a key)/, 'give its user the keys `~tollgate:*`'],
  [/^NOPERM |^ERR The user executing the script/, 'give its user the rights that docs/store.md names'],
  [/ knows no primary /, 'name in its address the primary that it monitors'],
  [/^CLUSTERDOWN /, 'start the nodes of its cluster: some keys have no primary'],
  [/SELECT is not allowed in cluster mode/, 'a cluster has no databases: name none in its address'],
  [/DB index is out of range/, 'name a database that it has, or raise its `databases`'],
  [
    /^ERR unknown (redis )?command/i,
    'begin its address with redis+sentinel:// where this is a Sentinel; a Redis must not have `rename-command`',
  ],
  [/max number of clients/, 'raise its maxclients'],
  [/certificate (has expired|is not yet valid)/, 'renew its certificate, or put the clock of this machine right'],
  [/does not match certificate's altnames/, 'name in its address a host that its certificate names'],
  [/certificate required|handshake failure/, 'set its `tls-auth-clients no`: the gateway has no certificate of its own'],
  [/self-signed certificate|unable to (get|verify)/, 'put the file of its certificate authority into NODE_EXTRA_CA_CERTS'],
  [/wrong version number/, 'it does not use TLS on this port: write redis:// in place of rediss://'],
]

/** Later, the same errors say that the connection is lost. */
const firstConnectFixes: Fixes = [
  [
    /ECONNRESET|^Socket closed unexpectedly|^Connection timeout/,
    'check that a Redis listens there, and write rediss:// where it uses TLS, or redis:// where it does not',
  ],
]

/**
 * Where in a script an error happened stands before it in Redis 6 and older, and behind it in Redis 7 and Valkey: it says nothing about these
 * errors. Redis 7.2 and Valkey name a missing right of a script otherwise than that of a command.
 */
export const withoutScript = (reason: string): string =>
  reason
    .replace(/^ERR Error running script .*: -/, '')
    .replace(/^ERR ACL failure in script: /, 'NOPERM ')
    .replace(/\.?( script: \w+, on @user_script:\d+)?\.?\s*$/, '')

/** The error that Redis replied, or any other. */
export const replyOf = (error: unknown): string => withoutScript(errorMessage(error instanceof StoreError ? error.cause : error))

/** The error, with what the operator can do about it where that is known. */
export const withFix = (reason: string, { isFirstConnect = false } = {}): string => {
  const error = withoutScript(reason)
  const known = isFirstConnect ? [...fixes, ...firstConnectFixes] : fixes
  for (const [errors, fix] of known) {
    const found = errors.exec(error)
    if (found !== null) return `${error}; ${fix.replace('$1', found[1] ?? '')}`
  }
  return reason
}

/** Of a reply that cannot be that of its command: the replies of a connection have come apart from its commands. */
export const outOfSyncError = (): StoreError => new StoreError('redis has sent a reply that belongs to another command')
