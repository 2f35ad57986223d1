import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type Koa from 'koa'
import { acceptsGzip } from './accepts-gzip.ts'

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
