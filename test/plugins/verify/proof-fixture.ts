import verify from '../../../plugins/verify/index.ts'
import { toBuffer } from '../../../src/json/chunked-bytes.ts'
import { Cancellation } from '../../../src/plugin/call.ts'
import type { Json, Request, Signal, Target } from '../../../src/plugin/call.ts'
import { isFailure, refuse } from '../../../src/plugin/reply.ts'
import type { Reply } from '../../../src/plugin/reply.ts'
import type { EvidenceInput } from '../../../src/services/evidence.ts'
import { createMetricsRegistry } from '../../../src/services/metrics.ts'
import { NodeStatuses } from '../../../src/services/node-status.ts'
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
  /** Names of nodes. */
  readonly drained?: readonly string[]
  /** Called when a node is waited for; until then, the node `lagging` lacks the reported block. A node `stuck` always does. */
  readonly onWait?: (timeoutMs: number) => void
  /** The newest block of each node, as its polls have it. */
  readonly polledHeads?: () => Readonly<Record<string, { readonly number: number; readonly hash: string }>>
  /** The newest finalized block: of all nodes, or of each as its polls have it. */
  readonly finalized?: number | Readonly<Record<string, number>>
  /** The option, as the plugin gets it. */
  readonly beacon?: object
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
    drained = [],
    onWait,
    finalized,
    polledHeads = () => ({}),
    beacon,
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
  let finalityVersion = 0
  const finalizedBlockOf = (name = '') => {
    const number = typeof finalized === 'object' ? finalized[name] : finalized
    return number === undefined ? undefined : { number, hash: '' }
  }
  let hasWaited = false
  const listeners = new Set<FeedListener>()
  const snapshot = (): Partial<ChainSnapshot> => ({ head: head(), reportedHeight, headVersion, finalityVersion, finalizedBlockOf })
  const heads = {
    get snapshot() {
      return snapshot()
    },
    hasBlock: (name: string) => name !== 'stuck' && (name !== 'lagging' || hasWaited || onWait === undefined),
    async waitForBlock(_upstreams: readonly string[], _block: number, { timeoutMs }: { readonly timeoutMs: number }) {
      hasWaited = true
      onWait?.(timeoutMs)
    },
    reporterOf: ({ name }: { readonly name: string }) => name,
    reportHeight: (_upstream: string, height: number) => height,
    feeds: {
      headers: {
        subscribe(listener: FeedListener) {
          listeners.add(listener)
          return { isStarted: Promise.resolve(true), close: () => void listeners.delete(listener) }
        },
      },
    },
    targets,
    headOf: (name: string) => polledHeads()[name],
    exclusionOf: (name: string) => ({ otherChain: 'chain', unverified: 'unverified' })[name],
  }
  const options = {
    methods: { ...policies, ...methods, ...policies },
    maxBytes: 1 << 20,
    costs: { proof: '1x', quorum: '1x' },
    readmit: true,
    maxProofBytes,
    maxBlocks: 8,
    ...(agree !== undefined && { agree }),
    ...(beacon && { beacon }),
  }
  const network = { name: 'devnet', chainId, blockTime: 1_000, devNode: false }
  const clock = new TestClock()
  const evidence: EvidenceInput[] = []
  const services = {
    network,
    evidence: {
      add(input: EvidenceInput) {
        evidence.push(input)
        return 'id'
      },
      proven: async () => [],
    },
    clock,
    methods: shippedMethods,
    log,
    upstreamClient: { request, disconnects: () => 0 },
    heads: heads as unknown as Heads,
    nodes: new NodeStatuses(createMetricsRegistry(), {
      isCurrent: true,
      of: () => new Set(drained),
      since: () => undefined,
      onReadmitted: () => undefined,
      onChange: () => () => undefined,
    }).of('devnet'),
  }
  const stage = createStage(verify, options, services)
  const [firstTarget, ...otherTargets] = targets
  const reply = (method: string, params: readonly Json[], target = firstTarget!, signal: Signal = new Cancellation()): Promise<Reply> => {
    const call = { ...fakeCall(method, params, { target, upstreams: targets }), signal }
    return stage.handle(call, async below => request(below.context.target, below.context.request))
  }
  const answer = async (method: string, params: readonly Json[], signal?: Signal): Promise<Json | undefined> => {
    const ask = (target: Target | undefined) => reply(method, params, target, signal)
    let answered = await ask(firstTarget)
    for (const target of hasFailover ? otherTargets : []) {
      if (!isFailure(answered) || (answered.fault !== 'upstream' && answered.retryElsewhere !== true)) break
      answered = await ask(target)
    }
    return isFailure(answered) ? undefined : JSON.parse(toBuffer(answered.result).toString())
  }
  return {
    log,
    requests,
    evidence,
    start: () => stage.start?.(),
    explain: (method: string) => stage.explain?.({ method, credits: 0, lookup: undefined, creditsLeft: undefined }),
    newHead: () => (headVersion += 1),
    revertFinality: () => (finalityVersion += 1),
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
    /** The logs of a block of the feed, as subscribers get them. */
    async feedLogs({ number, hash, parentHash }: JsonMembers): Promise<Json | undefined> {
      const block = { number: Number(number), hash: String(hash), parentHash: String(parentHash), json: '[]' }
      const text = await stage.events?.verifyLogs?.(block)
      return text === undefined ? undefined : JSON.parse(text)
    },
    /** The reply of the first node. */
    reply: (method: string, ...params: readonly Json[]) => reply(method, params),
    stop: () => stage.stop?.(),
    /** The answer of the first node, as the caller gets it; undefined for a failure. */
    call: (method: string, ...params: readonly Json[]) => answer(method, params),
    /** The reply of the node with the name. */
    callFrom: (name: string, method: string, ...params: readonly Json[]) =>
      reply(
        method,
        params,
        targets.find(target => target.name === name),
      ),
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
