import type { Target } from './call.ts'
import { isFailure } from './reply.ts'
import type { Failure, Meaning } from './reply.ts'
import type { Terms } from './services/agents/index.ts'
import type { Methods, Services } from './services/index.ts'

/**
 * How a node is, by its answer to what costs it nothing. `good` also when it limits us: it lives, and is well. `ill`: it
 * answers, but with an error. `none`: what comes, if anything does, is no JSON-RPC, as from a proxy whose node is gone.
 */
export type Pulse = 'good' | 'ill' | 'none'

const request = { method: 'eth_blockNumber', params: [] }

/** Asks the node for its height, ahead of all calls that wait for a place. */
export const feelPulse = async (
  target: Target,
  { agents, methods }: Pick<Services, 'agents' | 'methods'>,
  terms: Pick<Terms, 'timeout' | 'signal'>,
): Promise<Pulse> => {
  const reply = await agents.ask(target, request, { ...terms, maxBytes: 65_536, resend: true, ahead: true })
  if (!isFailure(reply) || meaningOf(reply, methods) === 'limited') return 'good'
  return reply.fault === 'upstream' ? 'none' : 'ill'
}

/** Limits come as HTTP, or in the words of JSON-RPC. */
const meaningOf = ({ kind, error, said, meaning }: Failure, methods: Methods): Meaning | undefined => {
  const words = kind === 'node' ? error : said
  return words === undefined ? meaning : methods.meaning(words, request.method)
}
