import type { Target } from '../../plugin/call.ts'
import { isFailure } from '../../plugin/reply.ts'
import type { Failure, ErrorCategory } from '../../plugin/reply.ts'
import type { MethodTable, Services } from '../index.ts'
import type { RequestOptions } from './request-limits.ts'

/**
 * The health of a node by its reply to a cheap request. `healthy` includes a node that is rate limiting. `erroring`: the
 * reply is an error. `unreachable`: no JSON-RPC came from the node, as from a proxy whose backend is down.
 */
export type ProbeResult = 'healthy' | 'erroring' | 'unreachable'

const probeRequest = { method: 'eth_blockNumber', params: [] }
const maxProbeResponseBytes = 65_536

/** Requests the height of the node, ahead of the calls that wait for its concurrency limit. */
export const probeUpstream = async (
  target: Target,
  { upstreamClient, methods }: Pick<Services, 'upstreamClient' | 'methods'>,
  options: Pick<RequestOptions, 'timeoutMs' | 'signal'>,
): Promise<ProbeResult> => {
  const reply = await upstreamClient.request(target, probeRequest, {
    ...options,
    maxBytes: maxProbeResponseBytes,
    idempotent: true,
    bypassConcurrencyLimit: true,
  })
  if (!isFailure(reply) || errorCategoryOf(reply, methods) === 'rateLimited') return 'healthy'
  return reply.fault === 'upstream' ? 'unreachable' : 'erroring'
}

/** A rate limit comes as an HTTP status, or as a JSON-RPC error. */
const errorCategoryOf = ({ kind, error, nodeError, category }: Failure, methods: MethodTable): ErrorCategory | undefined => {
  const rpcError = kind === 'node' ? error : nodeError
  return rpcError === undefined ? category : methods.errorCategory(rpcError, probeRequest.method)
}
