import type { RequestListener } from 'node:http'

/** A listener that is loaded with its first request: Koa takes 30 of the 500 ms of a start, and answers no calls. */
export const lazyListener = (load: () => Promise<RequestListener>): RequestListener => {
  let loading: Promise<RequestListener> | undefined
  return (req, res) => void (loading ??= load()).then(serve => serve(req, res))
}
