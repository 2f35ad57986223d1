import { onAbort } from '../../../src/plugin/call.ts'
import type { Json } from '../../../src/plugin/call.ts'
import { refuse } from '../../../src/plugin/reply.ts'
import type { Failure } from '../../../src/plugin/reply.ts'
import { Secret } from '../../../src/plugin/secret.ts'
import { HeadTracker } from '../../../src/services/chain-heads/index.ts'
import type { Heads, HeadsOptions } from '../../../src/services/chain-heads/index.ts'
import { createMetricsRegistry } from '../../../src/services/metrics.ts'
import type { UpstreamClient } from '../../../src/services/upstream-client/index.ts'
import { TestClock, TestLog, fakeResult } from '../../support/fakes.ts'
import { shippedMethods } from '../method-table/shipped-table.ts'
import { ModelChain, ModelNode, ancestorAt, seededRandom } from '../../support/model-chain.ts'

/** A node's result, or a failure; undefined is one too. */
type Response = Json | Failure | undefined
export type ResponseOverride = (method: string, params: readonly Json[]) => Response | Promise<Response>

const isRefusal = (value: Json | Failure): value is Failure => typeof value === 'object' && value !== null && 'fault' in value

export const targetOf = (name: string) => ({ name, url: new Secret(`http://${name}.test`), source: 'node' as const })

/** The names of the upstreams in the order in which calls try them. */
export const orderOf = (heads: Pick<Heads, 'rankOf'>, upstreams: readonly { readonly name: string }[], block?: number): readonly string[] =>
  upstreams.map(({ name }) => name).toSorted((one, other) => heads.rankOf(one, block) - heads.rankOf(other, block))

/** Heads of nodes of one chain, which has 100 blocks; block 50 is finalized. The block time is 1 s, the poll interval 500 ms. */
export const openModelHeads = (
  names: readonly string[] = ['a', 'b'],
  maxLag?: number,
  chainIds: Readonly<Record<string, Json | undefined>> = {},
  webSocketUrls: Readonly<Record<string, string>> = {},
  others: Pick<HeadsOptions, 'heightBroadcasts' | 'tagBroadcasts' | 'devNode' | 'nodes'> = {},
) => {
  const chain = new ModelChain(seededRandom(7))
  for (let i = 0; i < 50; i++) chain.mine()
  while (chain.final.number !== 50) chain.finalize()
  for (let i = 0; i < 50; i++) chain.mine()
  const clock = new TestClock()
  const log = new TestLog()
  const metrics = createMetricsRegistry()
  const nodes = names.map(name => new ModelNode(name, chain))
  const nodeOf = (name: string) => nodes.find(node => node.name === name) as ModelNode
  /** `<node> <method>`, and ` finalized` for requests for the finalized block. */
  const requests: string[] = []
  /** By node: answers in place of the node. */
  const responseOverrides = new Map<string, ResponseOverride>()
  /** By node: connections that it has closed. */
  const disconnects = new Map<string, number>()
  const respond = ({ name, method, params }: { name: string; method: string; params: readonly Json[] }) => {
    const override = responseOverrides.get(name)
    if (override !== undefined) return override(method, params)
    return method === 'eth_chainId' && name in chainIds ? chainIds[name] : nodeOf(name).answer(method, params)
  }
  const upstreamClient: UpstreamClient = {
    disconnects: ({ name }) => disconnects.get(name) ?? 0,
    async request({ name }, { method, params }, { signal }) {
      requests.push(`${name} ${method}${params[0] === 'finalized' ? ' finalized' : ''}`)
      const canceled = refuse('unavailable', { upstream: name, fault: 'caller', cause: 'client disconnected' })
      const value = await Promise.race([
        respond({ name, method, params }),
        new Promise<Failure>(resolve => onAbort(signal, () => resolve(canceled))),
      ])
      if (value !== undefined && isRefusal(value)) return value
      if (value === undefined) return refuse('unavailable', { upstream: name, cause: 'ECONNREFUSED' })
      return fakeResult(value, Array.isArray(value) ? { count: value.length } : {})
    },
  }
  const heads = new HeadTracker({
    chainId: 1,
    blockTime: 1000,
    upstreamClient,
    errorCategory: shippedMethods.errorCategory,
    clock,
    log,
    metrics,
    ...others,
  })
  const targets = names.map(name => {
    const url = webSocketUrls[name]
    return { ...targetOf(name), ...(url !== undefined && { ws: new Secret(url) }) }
  })
  const stop = heads.track(targets, { maxLag })
  const settle = () => new Promise(setImmediate)
  const advance = async (ms: number) => {
    for (let left = ms; left > 0; left -= 500) {
      clock.advance(Math.min(500, left))
      await settle()
    }
  }
  return {
    chain,
    heads,
    clock,
    metrics,
    nodes,
    nodeOf,
    requests,
    responseOverrides,
    disconnects,
    stop,
    settle,
    advance,
    /** A call comes in, and the polls that it starts are done. */
    recordCall: async () => {
      heads.recordActivity()
      await settle()
    },
    requestCount: (ending = 'eth_getBlockByNumber') => requests.filter(request => request.endsWith(ending)).length,
    moveHeads: (number: number) => {
      for (const node of nodes) node.head = ancestorAt(chain.tip, number) ?? node.head
    },
    log,
    logLines: () => log.lines.map(({ level, message }) => `${level} ${message}`),
  }
}
