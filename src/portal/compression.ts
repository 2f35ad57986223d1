import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type Koa from 'koa'
import { LRUCache } from 'lru-cache'

const maxKnownEncodings = 100

/** By Accept-Encoding: browsers send a few. */
const acceptsGzipByHeader = new LRUCache<string, boolean>({ max: maxKnownEncodings })

export const acceptsGzip = (ctx: Koa.Context): boolean => {
  const header = ctx.get('Accept-Encoding')
  const known = acceptsGzipByHeader.get(header)
  if (known !== undefined) return known
  const accepts = ctx.acceptsEncodings('gzip', 'identity') === 'gzip'
  acceptsGzipByHeader.set(header, accepts)
  return accepts
}

const compress = promisify(gzip)

/** Shorter responses fit into a few packets. */
const minCompressedChars = 4_096

/**
 * Compresses long responses of the API, such as months of usage, to a fifth. Only to GET: the length of a response that has a new key or token beside
 * what its caller chose would tell of it.
 */
export const compressJson: Koa.Middleware = async (ctx, next) => {
  await next()
  const body: unknown = ctx.body
  if (ctx.method !== 'GET' || typeof body !== 'object' || body === null || !ctx.response.is('json')) return
  const text = JSON.stringify(body)
  ctx.vary('Accept-Encoding')
  ctx.body = text.length >= minCompressedChars && acceptsGzip(ctx) ? await compress(text, { level: 1 }) : text
  ctx.type = 'json'
  if (typeof ctx.body !== 'string') ctx.set('Content-Encoding', 'gzip')
}
