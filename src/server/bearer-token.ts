import type { IncomingMessage } from 'node:http'

/** The token that a request is sent with; undefined without one. Other schemes are for proxies, which pass their password on. */
export const bearerTokenOf = ({ headers: { authorization = '' } }: Pick<IncomingMessage, 'headers'>): string | undefined =>
  /^bearer(?: +|$)(.*)$/i.exec(authorization)?.[1]
