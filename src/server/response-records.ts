import type { RpcResponse } from '../json-rpc/handle-message.ts'
import { metricDefinitions } from '../services/metric-definitions.ts'
import type { Counter, Metrics } from '../services/metrics.ts'
import { getOrCreate } from '../util/memoize.ts'
import type { RequestOrigin } from './rpc-request.ts'
import type { RpcServices } from './rpc-services.ts'

/** A request as its response is logged; one that was not routed has its id alone. */
export type ResponseOrigin = Pick<RequestOrigin, 'requestId'> & Partial<Pick<RequestOrigin, 'network' | 'transport' | 'receivedAtMs'>>

/** Each status is looked up in the registry once, as responses are counted for each call. */
export const createResponseCounter = (metrics: Metrics): RpcServices['countResponse'] => {
  const counters = new Map<number, Counter>()
  const open = (status: number): Counter => metrics.counter(metricDefinitions.httpResponses, { status: String(status) })
  return status => getOrCreate(counters, status, open).add()
}

/** Counts and logs an HTTP response. */
export const recordResponse = (
  services: Pick<RpcServices, 'countResponse' | 'accessLog'>,
  origin: ResponseOrigin,
  response: RpcResponse,
  status: number,
): void => {
  services.countResponse(status)
  if (services.accessLog.isOn) logResponse(services, origin, response, status)
}

/** A caller that left before the response, with the status that nginx logs for it; `response` is what it would have got. */
export const logAborted = (services: Pick<RpcServices, 'accessLog'>, origin: ResponseOrigin, response: RpcResponse | undefined): void =>
  logResponse(services, origin, response, 499)

const noCall = { method: undefined, durationMs: undefined, bytesReceived: undefined }

/**
 * A line for each call of the response; one line for a response without calls, or where there was no response. A message over
 * WebSocket has no status.
 */
export const logResponse = (
  { accessLog }: Pick<RpcServices, 'accessLog'>,
  { requestId, network, transport, receivedAtMs }: ResponseOrigin,
  response: RpcResponse | undefined,
  status?: number,
): void => {
  const totalMs = accessLog.durationSince(receivedAtMs)
  const calls = response?.loggedCalls ?? [{ ...noCall, bytesSent: response?.body?.byteLength }]
  const batchSize = response?.isBatch === true ? calls.length : undefined
  for (let i = 0; i < calls.length; i++) {
    const { method, durationMs = totalMs, bytesReceived, bytesSent } = calls[i]!
    const reply = response?.replies[i]
    accessLog.record({ requestId, network, transport, status, method, reply, durationMs, bytesReceived, bytesSent, batchSize })
  }
}
