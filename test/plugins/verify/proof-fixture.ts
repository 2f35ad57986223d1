import verify from '../../../plugins/verify/index.ts'
import { toBuffer } from '../../../src/json/chunked-bytes.ts'
import { Cancellation } from '../../../src/plugin/call.ts'
import type { Json, Request, Signal, Target } from '../../../src/plugin/call.ts'
import { isFailure, refuse } from '../../../src/plugin/reply.ts'
import type { Reply } from '../../../src/plugin/reply.ts'
import type { ChainSnapshot, FeedListener, Heads } from '../../../src/services/index.ts'
import type { JsonMembers } from './verify-fixture.ts'
import { shippedMethods } from '../../services/method-table/shipped-table.ts'
import { TestClock, TestLog, createStage, fakeCall, fakeResult, fakeTarget } from '../../support/fakes.ts'

/** Answers a request of the gateway; undefined is as an error. */
export type Node = (request: Request) => Promise<Json | undefined>

interface ProofOptions {
  readonly agree?: number
  readonly maxProofBytes?: number
  /** Another node is asked where one fails, unless the others would say the same. */
  readonly hasFailover?: boolean
  /** Policies in place of `proof`. */
  readonly policies?: Readonly<Record<string, string>>
  /** Ethereum, unless given. */
  readonly chainId?: number
  /** The head that the gateway knows. */
  readonly head?: () => number | undefined
  /** The height that callers have been told. */
  readonly reportedHeight?: number
  /** Called when a node is waited for; until then, the node `lagging` lacks the reported block. */
  readonly onWait?: () => void
}

const methods = {
  eth_getBalance: 'proof',
  eth_getTransactionCount: 'proof',
  eth_getCode: 'proof',
  eth_getStorageAt: 'proof',
  eth_getLogs: 'proof',
  'eth_getBlock*': 'proof',
  'eth_getTransaction*': 'proof',
}

/** The plugin with the policy `proof` over these nodes, of which the first is asked. */
export const openProofs = (
  nodes: Readonly<Record<string, Node>>,
  {
    agree,
    maxProofBytes = 1 << 20,
    hasFailover = false,
    policies = {},
    chainId = 1,
    head = () => undefined,
    reportedHeight = 0,
    onWait,
  }: ProofOptions = {},
) => {
  const log = new TestLog()
  const requests: string[] = []
  const targets: readonly Target[] = Object.keys(nodes).map(name => ({ ...fakeTarget, name }))
  const request = async ({ name }: Target, request: Request): Promise<Reply> => {
    requests.push(`${name} ${request.method}`)
    const value = await nodes[name]?.(request)
    return value === undefined ? refuse('unavailable', { source: 'node', upstream: name }) : fakeResult(value, { upstream: name })
  }
  let headVersion = 0
  let hasWaited = false
  const listeners = new Set<FeedListener>()
  const snapshot = (): Partial<ChainSnapshot> => ({ head: head(), reportedHeight, headVersion, finalizedBlockOf: () => undefined })
  const heads = {
    get snapshot() {
      return snapshot()
    },
    hasBlock: (name: string) => name !== 'lagging' || hasWaited || onWait === undefined,
    async waitForBlock() {
      hasWaited = true
      onWait?.()
    },
    reportHeight: (_upstream: string, height: number) => height,
    feeds: {
      headers: {
        subscribe(listener: FeedListener) {
          listeners.add(listener)
          return { isStarted: Promise.resolve(true), close: () => void listeners.delete(listener) }
        },
      },
    },
    exclusionOf: (name: string) => (name === 'otherChain' ? 'chain' : undefined),
  }
  const options = {
    methods: { ...policies, ...methods, ...policies },
    maxBytes: 1 << 20,
    costs: { proof: '1x', quorum: '1x' },
    readmit: true,
    maxProofBytes,
    maxBlocks: 8,
    ...(agree !== undefined && { agree }),
  }
  const network = { name: 'devnet', chainId, blockTime: 1_000, devNode: false }
  const clock = new TestClock()
  const services = {
    network,
    clock,
    methods: shippedMethods,
    log,
    upstreamClient: { request, disconnects: () => 0 },
    heads: heads as unknown as Heads,
  }
  const stage = createStage(verify, options, services)
  const [firstTarget, ...otherTargets] = targets
  const answer = async (method: string, params: readonly Json[], signal: Signal = new Cancellation()): Promise<Json | undefined> => {
    const ask = (target: Target) => {
      const call = { ...fakeCall(method, params, { target, upstreams: targets }), signal }
      return stage.handle(call, async below => request(below.context.target, below.context.request))
    }
    let reply = await ask(firstTarget!)
    for (const target of hasFailover ? otherTargets : []) {
      if (!isFailure(reply) || (reply.fault !== 'upstream' && reply.retryElsewhere !== true)) break
      reply = await ask(target)
    }
    return isFailure(reply) ? undefined : JSON.parse(toBuffer(reply.result).toString())
  }
  return {
    log,
    requests,
    newHead: () => (headVersion += 1),
    listeners,
    clock,
    /** The feed has these blocks. */
    publish(blocks: readonly JsonMembers[]) {
      const added = blocks.map(({ transactions: _, uncles: __, withdrawals: ___, ...header }) => ({
        number: Number(header['number']),
        hash: String(header['hash']),
        parentHash: String(header['parentHash']),
        json: JSON.stringify(header),
      }))
      for (const listener of listeners) listener.onUpdate({ removed: [], added })
    },
    stop: () => stage.stop?.(),
    /** The answer of the first node, as the caller gets it; undefined for a failure. */
    call: (method: string, ...params: readonly Json[]) => answer(method, params),
    /** A call whose caller leaves once the node has been asked. */
    async callThatLeaves(method: string, ...params: readonly Json[]): Promise<void> {
      const cancellation = new Cancellation()
      const reply = answer(method, params, cancellation)
      await null
      cancellation.abort()
      await reply
    },
  }
}
