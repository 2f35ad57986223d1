/**
 * What went wrong with a connection or with what came over it, in words for the log; undefined when the error is no network
 * error, but a bug of the gateway. Messages of libraries may hold the URL, and with it a key: only codes are used.
 */
export const describeNetworkError = (error: unknown): string | undefined => {
  const code = errorCodeOf(error)
  if (code === undefined || bugCodes.test(code)) return undefined
  const [, description] = descriptions.find(([pattern]) => pattern.test(code)) ?? []
  return description === undefined ? code : `${description} (${code})`
}

/** Some errors of undici's HTTP parser have no code. */
const errorCodeOf = (error: unknown): string | undefined =>
  !(error instanceof Error)
    ? undefined
    : 'code' in error && typeof error.code === 'string'
      ? error.code
      : error.name === 'HTTPParserError'
        ? 'HPE_ERROR'
        : undefined

/** Codes of wrong arguments and failed assertions. */
const bugCodes = /^(UND_)?ERR_(INVALID|ASSERTION|OUT_OF_RANGE|MISSING_ARGS|UNHANDLED)/

const descriptions: readonly (readonly [RegExp, string])[] = [
  [/^ECONNREFUSED$/, 'connection refused'],
  [/^(ECONNRESET|EPIPE|UND_ERR_SOCKET|ERR_STREAM_PREMATURE_CLOSE|UND_ERR_ABORTED)$/, 'connection closed'],
  [/^(ENOTFOUND|EAI_\w+)$/, 'host name not resolved'],
  [/^(UND_ERR_CONNECT_TIMEOUT|ETIMEDOUT)$/, 'connection timed out'],
  [/^(EHOSTUNREACH|ENETUNREACH)$/, 'host unreachable'],
  [/^(CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|ERR_TLS_|ERR_SSL_|HOSTNAME_|INVALID_|EPROTO)/, 'TLS error'],
  [/^(HPE_|UND_ERR_(HEADERS|RES|INFO|RESPONSE))/, 'invalid HTTP response'],
  [/^(Z_|ERR__|ERR_BROTLI|ERR_ZLIB)/, 'invalid compressed response'],
]
