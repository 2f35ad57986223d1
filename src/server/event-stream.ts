import type { ServerResponse } from 'node:http'
import type Koa from 'koa'

/** A response of server-sent events. */
export interface EventStream {
  /** False once it has ended, and while the client does not read what was sent. */
  readonly isWritable: boolean
  write(text: string): void
  end(): void
  onClose(listener: () => void): void
}

const startMember = 'startEventStream'

/** The response to the request will be events: respondWithEventStream() calls `start`. */
export const openEventStream = (ctx: Koa.Context, start: (stream: EventStream) => void): void => {
  ctx.status = 200
  ctx.set('Content-Type', 'text/event-stream')
  // nginx would hold events back.
  ctx.set('X-Accel-Buffering', 'no')
  ctx.state[startMember] = start
}

/**
 * Outside of the sessions: a session that is renewed has its cookie among the headers, which a stream sends first. Events are written
 * to the response itself: through a stream that Koa pipes, the first one took twice the CPU, and each page that was closed was a line of
 * the log.
 */
export const respondWithEventStream: Koa.Middleware = async (ctx, next) => {
  await next()
  const start = ctx.state[startMember] as ((stream: EventStream) => void) | undefined // set by openEventStream() alone
  if (start === undefined || ctx.method === 'HEAD') return
  ctx.respond = false
  if (!ctx.res.destroyed) start(toEventStream(ctx.res))
}

const toEventStream = (res: ServerResponse): EventStream => ({
  get isWritable() {
    return !res.writableEnded && !res.writableNeedDrain
  },
  write: text => void res.write(text),
  end: () => void res.end(),
  onClose: listener => void res.once('close', listener),
})
