import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { failureResponse } from '../json-rpc/handle-message.ts'
import { CallerMemory, overloaded } from '../services/memory-budget.ts'
import { closeResponseWithSocket, httpConnectionOf } from './request-tracking.ts'
import { UpgradeResponse, sendResponse } from './response.ts'
import { hasTooManyHeaders, nextRequestId } from './rpc-request.ts'
import type { RpcServices } from './rpc-services.ts'

/** What Node holds of a request, and of its response until those before it have been sent. Measured: 5 KB. */
const pipelinedRequestBytes = 8_192

/**
 * Requests that are behind another one of their connection (pipelining) are served in the turn of their address. Node begins thousands of these with
 * one read, refused ones too; where the memory budget has no room for one, it is refused, what has been read behind it is dropped, and the
 * connection closes. While requests of a connection wait, it is read no further. A connection with too many headers in a request is read no
 * further at all: it closes with the refusal.
 */
export const paceRequests =
  (services: RpcServices, serve: RequestListener): RequestListener =>
  (req, res) => {
    const isPipelined = res.socket === null && !(res instanceof UpgradeResponse)
    if (hasTooManyHeaders(req)) httpConnectionOf(req.socket).stop()
    if (!isPipelined) return serve(req, res)
    const owner = services.readClientAddress(req)
    if (!reserveForPipelining(services, owner, req, res)) return refuseRest(services, req, res)
    const turn = services.scheduler.enter(owner, 1)
    if (turn === undefined) return serve(req, res)
    httpConnectionOf(req.socket).pauseUntil(turn)
    void turn.then(() => {
      if (!req.socket.destroyed) serve(req, res)
    })
  }

/** Until the response has been sent, or the connection is closed. */
const reserveForPipelining = ({ memoryBudget }: RpcServices, owner: string, { socket }: IncomingMessage, res: ServerResponse): boolean => {
  const memory = new CallerMemory(memoryBudget, owner)
  if (!memory.reserve(pipelinedRequestBytes)) return false
  closeResponseWithSocket(socket, res)
  res.once('close', () => memory.releaseAll())
  return true
}

const refuseRest = (services: RpcServices, { socket }: IncomingMessage, res: ServerResponse): void => {
  httpConnectionOf(socket).stop()
  sendResponse(services, res, { requestId: nextRequestId() }, failureResponse(overloaded()))
}
