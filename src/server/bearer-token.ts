import type { IncomingMessage } from 'node:http'
import { isJwt } from '../util/key-mask.ts'

type RequestHeaders = Pick<IncomingMessage, 'headers'>

export type ReadBearer = (request: RequestHeaders) => string | undefined

/**
 * The token that a request is sent with; undefined without one. What a proxy in front passes on is none: its password, which has another
 * scheme, and the token (JWT) of an identity provider, as no token of the gateway has this form.
 */
export const bearerTokenOf = (request: RequestHeaders): string | undefined => {
  const text = bearerTextOf(request)
  return text === undefined || isJwt(text) ? undefined : text
}

/** The token, whatever its form. */
export const bearerTextOf = ({ headers: { authorization = '' } }: RequestHeaders): string | undefined =>
  /^bearer(?: +|$)(.*)$/i.exec(authorization)?.[1]
