/**
 * What went wrong with a connection or with what came over it, in words for the log; undefined when the error is none
 * of the network's, but a bug of ours. Messages of libraries may hold the URL, and with it a key: only codes are kept.
 */
export const describeNetworkError = (error: unknown): string | undefined => {
  const code = errorCodeOf(error)
  if (code === undefined || ownErrorCode.test(code)) return undefined
  const [, description] = descriptions.find(([pattern]) => pattern.test(code)) ?? []
  return description === undefined ? code : `${description} (${code})`
}

/** Errors of undici's HTTP parser come without a code for some faults. */
const errorCodeOf = (error: unknown): string | undefined =>
  !(error instanceof Error)
    ? undefined
    : 'code' in error && typeof error.code === 'string'
      ? error.code
      : error.name === 'HTTPParserError'
        ? 'HPE_ERROR'
        : undefined

const ownErrorCode = /^(UND_)?ERR_(INVALID|ASSERTION|OUT_OF_RANGE|MISSING_ARGS|UNHANDLED)/

const descriptions: readonly (readonly [RegExp, string])[] = [
  [/^ECONNREFUSED$/, 'nothing listens there'],
  [/^(ECONNRESET|EPIPE|UND_ERR_SOCKET|ERR_STREAM_PREMATURE_CLOSE|UND_ERR_ABORTED)$/, 'the connection was closed'],
  [/^(ENOTFOUND|EAI_\w+)$/, 'the host name cannot be resolved'],
  [/^(UND_ERR_CONNECT_TIMEOUT|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH)$/, 'no connection in time'],
  [/^(CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|ERR_TLS_|ERR_SSL_|HOSTNAME_|INVALID_|EPROTO)/, 'TLS failed'],
  [/^(HPE_|UND_ERR_(HEADERS|RES|INFO|RESPONSE))/, 'the answer is not HTTP'],
  [/^(Z_|ERR__|ERR_BROTLI|ERR_ZLIB)/, 'the compressed answer is broken'],
]
