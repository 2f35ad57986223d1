import type { Target } from '../../plugin/call.ts'
import { isFailure } from '../../plugin/reply.ts'
import type { Failure, ErrorCategory } from '../../plugin/reply.ts'
import type { RequestOptions } from './index.ts'
import type { MethodTable, Services } from '../index.ts'

/**
 * How a node is, by its answer to what costs it nothing. `good` also when it limits us: it lives, and is well. `ill`: it
 * answers, but with an error. `none`: what comes, if anything does, is no JSON-RPC, as from a proxy whose node is gone.
 */
export type ProbeResult = 'good' | 'ill' | 'none'

const probeRequest = { method: 'eth_blockNumber', params: [] }

/** Asks the node for its height, ahead of all calls that wait for a place. */
export const probeUpstream = async (
  target: Target,
  { upstreamClient, methods }: Pick<Services, 'upstreamClient' | 'methods'>,
  terms: Pick<RequestOptions, 'timeoutMs' | 'signal'>,
): Promise<ProbeResult> => {
  const reply = await upstreamClient.request(target, probeRequest, {
    ...terms,
    maxBytes: 65_536,
    idempotent: true,
    bypassConcurrencyLimit: true,
  })
  if (!isFailure(reply) || errorCategoryOf(reply, methods) === 'rateLimited') return 'good'
  return reply.fault === 'upstream' ? 'none' : 'ill'
}

/** Limits come as HTTP, or in the words of JSON-RPC. */
const errorCategoryOf = ({ kind, error, nodeError, category }: Failure, methods: MethodTable): ErrorCategory | undefined => {
  const rpcError = kind === 'node' ? error : nodeError
  return rpcError === undefined ? category : methods.errorCategory(rpcError, probeRequest.method)
}
