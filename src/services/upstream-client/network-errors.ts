/**
 * What went wrong with a connection or with what came over it, in words for the log. Messages of libraries may hold the URL,
 * and with it a key: only codes are used, and `otherwise` for an error without a code.
 */
export const describeNetworkError = (error: unknown, otherwise = 'unexpected network error'): string => {
  const code = errorCodeOf(error)
  if (code === undefined) return otherwise
  const [, description] = descriptions.find(([pattern]) => pattern.test(code)) ?? []
  return description === undefined ? code : `${description} (${code})`
}

/** The code of an error that is due to a limit of this process or its machine, and not to the node. */
export const localLimitOf = (error: unknown): string | undefined => {
  const code = errorCodeOf(error)
  return code !== undefined && localLimitCodes.has(code) ? code : undefined
}

/** Open files of the process and of the system, memory for sockets, and local ports. */
const localLimitCodes: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EADDRNOTAVAIL'])

const errorCodeOf = (error: unknown): string | undefined =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined

const descriptions: readonly (readonly [RegExp, string])[] = [
  [/^ECONNREFUSED$/, 'connection refused'],
  [/^(ECONNRESET|EPIPE|ERR_STREAM_PREMATURE_CLOSE)$/, 'connection closed'],
  [/^(ENOTFOUND|EAI_\w+)$/, 'host name not resolved'],
  [/^ETIMEDOUT$/, 'connection timed out'],
  [/^(EHOSTUNREACH|ENETUNREACH)$/, 'host unreachable'],
  [/^(CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|ERR_TLS_|ERR_SSL_|HOSTNAME_|INVALID_|EPROTO)/, 'TLS error'],
  [/^HTTP_/, 'invalid HTTP response'],
  [/^(Z_|ERR__|ERR_BROTLI|ERR_ZLIB)/, 'invalid compressed response'],
]

/** The error of a response that is not HTTP/1.1. The code is for the log; it holds nothing of what the node wrote. */
export class InvalidResponseError extends Error {
  override readonly name = 'InvalidResponseError'
  readonly code: string

  constructor(code: `HTTP_${string}`) {
    super('invalid HTTP response')
    this.code = code
  }
}

const errorWithCode = (message: string, code: string): Error => Object.assign(new Error(message), { code })

export const connectionClosed = errorWithCode('connection closed', 'ECONNRESET')
export const connectionTimedOut = errorWithCode('connection timed out', 'ETIMEDOUT')

/** What exceeds the limit of sockets fails as it would for lack of files. */
export const noSocketLeft = (): Error => errorWithCode('no socket left', 'EMFILE')
