import type Koa from 'koa'

/** Reads JSON bodies. koa-bodyparser takes 40 ms of CPU to load, which is spent with the first request that may have a body. */
export const parseJsonBody = (maxSize: string): Koa.Middleware => {
  let parser: Promise<Koa.Middleware> | undefined
  return async (ctx, next) => {
    if (ctx.method === 'GET' || ctx.method === 'HEAD') return next()
    parser ??= import('koa-bodyparser').then(({ default: bodyParser }) => bodyParser({ enableTypes: ['json'], jsonLimit: maxSize }))
    return (await parser)(ctx, next)
  }
}
