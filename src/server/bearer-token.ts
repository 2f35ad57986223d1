import type { IncomingMessage } from 'node:http'

type RequestHeaders = Pick<IncomingMessage, 'headers'>

export type ReadBearer = (request: RequestHeaders) => string | undefined

/** A JWS in compact form, of which the header begins with `{"` (RFC 7515). */
const jwtPattern = /^eyJ[\w-]*\.[\w-]+\.[\w-]*$/

export const isJwtText = (text: string): boolean => jwtPattern.test(text)

/**
 * The token that a request is sent with; undefined without one. What a proxy in front passes on is none: its password, which has another
 * scheme, and the token (JWT) of an identity provider, as no token of the gateway has this form.
 */
export const bearerTokenOf = (request: RequestHeaders): string | undefined => {
  const text = bearerTextOf(request)
  return text === undefined || isJwtText(text) ? undefined : text
}

/** The token, whatever its form. */
export const bearerTextOf = ({ headers: { authorization = '' } }: RequestHeaders): string | undefined =>
  /^bearer(?: +|$)(.*)$/i.exec(authorization)?.[1]
