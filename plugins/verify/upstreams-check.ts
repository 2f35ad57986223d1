import { createNameMatcher } from '../../src/plugin/plugin.ts'
import type { OtherStep, ReportProblem } from '../../src/plugin/plugin.ts'
import { quorumOf } from './policies.ts'
import type { PolicyOptions } from './policies.ts'
import { provableMethods, provableStates } from './provable-methods.ts'

/** What an upstream must have so that something is proven of the method. */
const requiredMethods = (method: string, hasBeacon: boolean): readonly string[] => [
  // The state has the hashes of older blocks.
  ...(hasBeacon ? ['eth_getProof', 'eth_getBlockByHash'] : []),
  ...(provableStates.includes(method)
    ? ['eth_getProof', 'eth_getBlockByNumber']
    : ['eth_getBlockByNumber', 'eth_getBlockByHash', ...(/receipt|log/i.test(method) ? ['eth_getBlockReceipts'] : [])]),
]

interface Upstream {
  /** All methods, if absent. */
  readonly methods?: readonly string[]
}

/** Reports policies that the upstreams of the pipeline cannot meet. */
export const checkUpstreams = ({ methods, agree, beacon }: PolicyOptions, others: readonly OtherStep[], report: ReportProblem): void => {
  const failover = others.find(({ plugin }) => plugin === 'failover')
  if (failover === undefined) return
  const upstreams = failover.options['upstreams'] as readonly Upstream[] // as its schema has them
  const count = `the pipeline has ${upstreams.length} upstream${upstreams.length === 1 ? '' : 's'}`
  if (agree !== undefined && agree > upstreams.length) report(['agree'], `${agree} upstreams must agree, and ${count}`)
  for (const [name, policy] of Object.entries(methods)) {
    const quorum = quorumOf(policy)
    if (quorum !== undefined && quorum.asked > upstreams.length) report(['methods', name], `\`${policy}\`, and ${count}`)
    if (policy !== 'proof') continue
    const proven = provableMethods.filter(createNameMatcher([name]))
    const missing = proven
      .flatMap(method => requiredMethods(method, beacon !== undefined))
      .find(required => !upstreams.some(upstream => has(upstream, required)))
    if (missing !== undefined) report(['methods', name], `a proof needs ${missing}, which no upstream has by its \`methods\``)
  }
}

const has = ({ methods }: Upstream, method: string): boolean => methods === undefined || createNameMatcher(methods)(method)
