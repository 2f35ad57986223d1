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
