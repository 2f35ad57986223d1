import Koa from 'koa'
import { refuse } from '../reply.ts'
import { failureResponse } from '../wire/answer.ts'
import { routeRequest } from './door.ts'
import type { RpcContext } from './door.ts'
import { nextRequestId } from './origin.ts'
import { sendResponse, sendPreflight } from './send.ts'

/** Preflights, and requests whose method makes them no call. */
export const createNonRpcApp = (rpcContext: RpcContext): Koa => {
  const app = new Koa()
  // Koa would write them to stderr, also that a caller has reset its connection, which every caller may do at will.
  app.on('error', (error: NodeJS.ErrnoException) => {
    if (error.syscall === undefined) rpcContext.log.error({ err: error }, 'a request that is no call failed because of a bug')
  })
  app.use(context => {
    context.respond = false
    const { req, res } = context
    if (req.method === 'OPTIONS') return sendPreflight(req, res)
    const routed = routeRequest(rpcContext, 'http', req)
    sendResponse(rpcContext, res, nextRequestId(), failureResponse('error' in routed ? routed : refuse('httpMethod')))
  })
  return app
}
