import type { ServerResponse } from 'node:http'
import { overloaded } from '../services/memory-budget.ts'
import { failureResponse } from '../json-rpc/handle-message.ts'
import type { RpcResponse, ResponseBody } from '../json-rpc/handle-message.ts'
import { refundCharges } from './rpc-services.ts'
import type { RpcServices } from './rpc-services.ts'

/**
 * Reserves the bytes of a long response in the memory budget of all responses, until the response has been sent. When the
 * budget is exhausted, the response becomes a 503 and the charges are refunded.
 */
export const reserveForResponse = (
  services: Pick<RpcServices, 'memoryBudget' | 'hintGc' | 'log'>,
  res: ServerResponse,
  response: RpcResponse,
): RpcResponse => {
  const { memoryBudget, hintGc } = services
  const length = response.body?.byteLength ?? 0
  if (!memoryBudget.reserve(length)) {
    refundCharges(services, response.replies, 'unavailable')
    return failureResponse(overloaded(), response.id)
  }
  res.once('close', () => {
    memoryBudget.release(length)
    hintGc(length)
  })
  return response
}

/** Ends the connection of a caller who reads nothing, so that the memory budget is freed. A slow reader is not timed out. */
export const setSendTimeout = (
  { log, sendTimeoutMs = 30_000 }: Pick<RpcServices, 'log' | 'sendTimeoutMs'>,
  res: ServerResponse,
  requestId: string,
): void => {
  res.setTimeout(sendTimeoutMs, () => {
    log.info({ event: 'slow-client', requestId }, 'client timed out reading the response; closing the connection')
    res.destroy()
  })
}

/**
 * Sends the chunks without copying them. The response ends only when all chunks have been flushed: a server that stops
 * closes connections whose response has ended, even if the caller has not read it yet.
 */
export const sendChunks = (res: ServerResponse, { chunks }: ResponseBody): void => {
  const last = chunks.length - 1
  res.cork()
  for (const [i, chunk] of chunks.entries()) res.write(chunk, 'latin1', i < last ? undefined : () => void res.end())
  res.uncork()
}
