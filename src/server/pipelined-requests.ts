import type { IncomingMessage, ServerResponse } from 'node:http'
import { CallerMemory } from '../services/memory-budget.ts'
import { callerConnectionOf, closeResponseWithSocket } from './caller-connection.ts'
import { hasTooManyHeaders } from './request-routing.ts'
import { UpgradeResponse } from './response.ts'
import type { RpcServices } from './rpc-services.ts'

type PipeliningServices = Pick<RpcServices, 'readClientAddress' | 'memoryBudget' | 'scheduler'>

/**
 * Requests that are behind another one of their connection (pipelining) are served in the turn of their address, refused ones too. While one waits,
 * those behind it do not begin, of which one read may have thousands, and the connection is read no further. Where the memory budget has no room
 * for one, it is refused, what has been read behind it is dropped, and the connection closes. A connection with too many headers in a request is
 * read no further at all: it closes with the refusal. So does one whose earlier requests are responded to while the gateway stops.
 */
export const waitForTurn = (services: PipeliningServices, req: IncomingMessage, res: ServerResponse): Promise<void> | undefined => {
  const isPipelined = res.socket === null && !(res instanceof UpgradeResponse)
  if (hasTooManyHeaders(req)) callerConnectionOf(req.socket).stop()
  if (!isPipelined) return undefined
  const connection = callerConnectionOf(req.socket)
  if (!connection.enqueue(res)) return new Promise(() => undefined)
  const owner = services.readClientAddress(req)
  const memory = new CallerMemory(services.memoryBudget, owner)
  const heldBytes = connection.holdRequests() ? maxHeldInputBytes : 0
  if (!memory.reserve(pipelinedRequestBytes + heldBytes)) {
    withoutRoom.add(res)
    connection.stop()
    return undefined
  }
  closeResponseWithSocket(req.socket, res)
  res.once('close', () => memory.releaseAll())
  const turn = services.scheduler.enter(owner, 1)
  const releaseInput = (): void => {
    if (memory.heldBytes > 0) memory.release(heldBytes)
  }
  if (turn === undefined) releaseInput()
  else connection.pauseUntil(turn)
  return turn?.then(releaseInput)
}

/** Responses to pipelined requests that the memory budget has no room for. */
const withoutRoom = new WeakSet<ServerResponse>()

export const hasNoRoom = (res: ServerResponse): boolean => res.socket === null && withoutRoom.has(res)

/** What Node holds of a request, and of its response until those before it have been sent. Measured: 5 KB. */
const pipelinedRequestBytes = 8_192

/** What has been read behind a request that waits: Node reads so much at once. */
const maxHeldInputBytes = 65_536
