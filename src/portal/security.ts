import type Koa from 'koa'
import { bearerTokenOf } from '../server/bearer-token.ts'
import { namesKnownHost } from '../server/known-host.ts'
import { ApiError } from './api-errors.ts'
import { withoutBrackets } from '../util/host-name.ts'

/**
 * Headers of every response. The page runs no code but its own, and is shown in no frame; `connectSources` are the networks,
 * which the page Try it calls.
 */
export const securityHeaders = (connectSources: readonly string[]): Koa.Middleware => {
  const policy = [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    `connect-src ${["'self'", ...connectSources].join(' ')}`,
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join('; ')
  return (ctx, next) => {
    ctx.set('Content-Security-Policy', policy)
    ctx.set('X-Content-Type-Options', 'nosniff')
    ctx.set('Referrer-Policy', 'no-referrer')
    ctx.set('Cross-Origin-Opener-Policy', 'same-origin')
    ctx.set('Cache-Control', 'no-store')
    return next()
  }
}

/**
 * Refuses a request that names another host than the portal's with 421: a page whose name has been made to point to this machine (DNS
 * rebinding) could else read the portal as if it were its own.
 */
export const requireHost = (url: string, listenHost: string): Koa.Middleware => {
  const hosts = [new URL(url).hostname, listenHost].map(host => withoutBrackets(host).toLowerCase())
  return (ctx, next) => {
    if (namesKnownHost(ctx.req, hosts)) return next()
    throw new ApiError(421, 'wrong-host', 'this host is not the portal’s; `portal.url` in gateway.yaml names it')
  }
}

/**
 * Refuses requests that change something and come from pages of other sites. Browsers send no tokens unasked, but the password of a proxy. With
 * `secure` people have the page by https, of which a proxy may make http: whoever can change what the network carries has pages by http.
 */
export const refuseCrossSite = (secure: boolean): Koa.Middleware => {
  const protocol = secure ? 'https:' : 'http:'
  return (ctx, next) => {
    if (['GET', 'HEAD', 'OPTIONS'].includes(ctx.method) || bearerTokenOf(ctx.req) !== undefined) return next()
    const site = ctx.get('Sec-Fetch-Site')
    const origin = ctx.get('Origin')
    const ownOrigin = originOf(`${protocol}//${ctx.host}`)
    const isOwnOrigin = ownOrigin !== undefined && originOf(origin) === ownOrigin
    // Neither header: no browser, which has no cookies of this site either unless somebody copied them on purpose.
    if (site === 'same-origin' || (site === '' && (isOwnOrigin || origin === ''))) return next()
    throw new ApiError(403, 'cross-site', 'the request comes from a page of another site')
  }
}

const originOf = (url: string): string | undefined => (URL.canParse(url) ? new URL(url).origin : undefined)
