import verify from '../../../plugins/verify/index.ts'
import type { Json } from '../../../src/plugin/call.ts'
import { isFailure } from '../../../src/plugin/reply.ts'
import { createMetricsRegistry } from '../../../src/services/metrics.ts'
import { shippedMethods } from '../../services/method-table/shipped-table.ts'
import { TestLog, createStage, fakeCall, fakeResult, fakeTarget } from '../../support/fakes.ts'
import type { AnvilChain } from '../../support/anvil-chain.ts'

interface VerifyOptions {
  readonly chainId?: number
  readonly options?: object
}

/** The plugin over nodes that answer what the test says. */
export const openVerify = ({ chainId = 31_337, options = {} }: VerifyOptions = {}) => {
  const log = new TestLog()
  const metrics = createMetricsRegistry()
  const network = { name: 'devnet', chainId, blockTime: 1_000, devNode: false }
  const stage = createStage(
    verify,
    { methods: {}, maxBytes: 1 << 20, maxBlocks: 8, costs: { proof: '1x', quorum: '1x' }, ...options },
    { methods: shippedMethods, network, log, metrics },
  )
  return {
    log,
    metrics,
    /** What becomes of the answer of that node. */
    answer: (method: string, params: readonly Json[], value: Json, upstream = 'own') =>
      stage.handle(fakeCall(method, params, { target: { ...fakeTarget, name: upstream } }), async () => fakeResult(value, { upstream })),
    /** Whether the caller gets the answer of that node. */
    async accepts(method: string, params: readonly Json[], value: Json, upstream?: string): Promise<boolean> {
      return !isFailure(await this.answer(method, params, value, upstream))
    },
  }
}

export type JsonMembers = { readonly [name: string]: Json }

/** A block of a real node, and everything about it. */
export interface BlockAnswers {
  readonly block: JsonMembers
  readonly fullBlock: JsonMembers & { readonly transactions: readonly JsonMembers[] }
  readonly receipts: readonly (JsonMembers & { readonly logs: readonly JsonMembers[] })[]
  readonly logs: readonly JsonMembers[]
}

export const readBlock = async (chain: AnvilChain, block: string): Promise<BlockAnswers> => {
  const [header, fullBlock, receipts, logs] = await Promise.all([
    chain.request<BlockAnswers['block']>('eth_getBlockByNumber', block, false),
    chain.request<BlockAnswers['fullBlock']>('eth_getBlockByNumber', block, true),
    chain.request<BlockAnswers['receipts']>('eth_getBlockReceipts', block),
    chain.request<BlockAnswers['logs']>('eth_getLogs', { fromBlock: block, toBlock: block }),
  ])
  return { block: header, fullBlock, receipts, logs }
}
