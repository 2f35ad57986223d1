import Koa from 'koa'
import { refuse } from '../plugin/reply.ts'
import { failureResponse } from '../json-rpc/handle-message.ts'
import { routeRequest } from './rpc-context.ts'
import type { RpcContext } from './rpc-context.ts'
import { nextRequestId } from './request-origin.ts'
import { sendResponse, sendPreflight } from './response.ts'

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
