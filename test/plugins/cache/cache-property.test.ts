import t from '../../support/tap.ts'
import cache from '../../../plugins/cache/index.ts'
import type { Json, ContextKey } from '../../../src/plugin/call.ts'
import { toBuffer } from '../../../src/json/chunked-bytes.ts'
import type { RawJson } from '../../../src/json/chunked-bytes.ts'
import type { Next } from '../../../src/plugin/plugin.ts'
import { isFailure, refuse } from '../../../src/plugin/reply.ts'
import type { Reply } from '../../../src/plugin/reply.ts'
import { Secret } from '../../../src/plugin/secret.ts'
import { HeadTracker } from '../../../src/services/chain-heads/index.ts'
import type { UpstreamClient } from '../../../src/services/index.ts'
import { createMetricsRegistry } from '../../../src/services/metrics.ts'
import { shippedMethods } from '../../services/method-table/shipped-table.ts'
import { TestClock, TestLog, fakeCall, fakeResult, createStage } from '../../support/fakes.ts'
import { toHexQuantity } from '../../../src/util/json.ts'
import { ModelChain, ModelNode, ancestorAt, responseAt, seededRandom, transactionAt } from '../../support/model-chain.ts'
import type { ModelBlock, RandomBelow } from '../../support/model-chain.ts'

const blockTime = 1000
/** ms between polls, and the longest that an answer that may change is cached. */
const interval = 500

interface RpcRequest {
  readonly method: string
  readonly params: readonly Json[]
}

/** The node that made an answer, and the heads that had been reported by then. */
interface Provenance {
  readonly node: ModelNode
  readonly newest: number
  readonly reported: ReportedHead | undefined
}

interface ReportedHead {
  readonly number: number
  readonly hash: string | undefined
}

/** A node's state from this moment on. */
interface State {
  readonly since: number
  readonly head: ModelBlock
  readonly final: ModelBlock
}

/** All calls come from one caller: making another takes longer than answering it. */
const caller = fakeCall('eth_blockNumber')

/** The cache and real heads before three nodes of a model chain, on a test clock. */
class CacheModel {
  readonly clock = new TestClock()
  readonly chain: ModelChain
  readonly nodes: readonly ModelNode[]
  /**
   * A second node behind the URL of node `a`: calls reach it, polls do not, so that nobody knows its head. It gets calls while it is not on
   * a branch without a finalized block, and at most 3 s behind: nobody could tell its answers from final ones otherwise.
   */
  readonly replica: ModelNode
  readonly hits = { live: 0, final: 0 }
  readonly violations: string[] = []
  readonly #random: RandomBelow
  readonly #mayReorg: boolean
  readonly #isFinalAtOnce: boolean
  readonly #histories = new Map<ModelNode, State[]>()
  readonly #reported = new Map<string, ReportedHead>()
  /** Heights in answers while a poll was in flight: a poll that returns a lower height has been overtaken. */
  readonly #overtaking = new Map<string, number>()
  readonly #provenance = new WeakMap<RawJson, Provenance>()
  readonly #heads
  readonly #stage
  #reportedHeight = 0

  constructor(seed: number, { mayFall = false, isFinalAtOnce = false }) {
    this.#random = seededRandom(seed)
    this.#mayReorg = mayFall
    this.#isFinalAtOnce = isFinalAtOnce
    this.chain = new ModelChain(this.#random)
    this.nodes = ['a', 'b', 'c'].map(name => new ModelNode(name, this.chain))
    this.replica = new ModelNode('a', this.chain)
    for (const node of [...this.nodes, this.replica]) this.#histories.set(node, [{ since: -Infinity, head: node.head, final: node.final }])
    const { clock } = this
    const network = { name: 'model', chainId: 1, blockTime, devNode: false }
    const heads = new HeadTracker({
      ...network,
      upstreamClient: { request: this.#poll, disconnects: () => 0 },
      errorCategory: shippedMethods.errorCategory,
      clock,
      log: new TestLog(),
      metrics: createMetricsRegistry(),
    })
    heads.track(this.nodes.map(({ name }) => ({ name, url: new Secret(`http://${name}.test`), source: 'node' })))
    this.#heads = heads
    const options = { maxBytes: 1 << 22, methods: {} }
    this.#stage = createStage(cache, options, { clock, methods: shippedMethods, heads, network, cacheBytes: 1 << 22 })
  }

  async step(): Promise<void> {
    const choice = this.#random(200)
    if (choice < 6) this.#changeChain(choice)
    else if (choice < 14) this.#sync()
    else if (choice < 45) this.clock.advance(this.#random(100))
    else if (choice < 46) this.clock.advance(5000)
    else void this.request(this.#createRequest())
    if (choice < 46) await new Promise(setImmediate)
  }

  #changeChain(choice: number): void {
    if (choice < 4 || this.#isFinalAtOnce) this.chain.mine()
    else if (choice < 5) this.chain.reorg()
    else this.chain.finalize()
    if (this.#isFinalAtOnce) this.chain.finalize(1)
  }

  async request({ method, params }: RpcRequest): Promise<Reply> {
    this.#heads.recordActivity()
    const before = this.#reportedHeight
    const reported = new Map(this.#reported) // cache hits are chosen at once
    const call = { ...caller, context: { ...caller.context, request: { method, params } } }
    const reply = await this.#stage.handle(call, this.#next)
    if (!isFailure(reply)) this.#check({ method, params }, reply.result, reply.source === 'cache' ? reported : undefined, before)
    return reply
  }

  #check(request: RpcRequest, bytes: RawJson, reported: ReadonlyMap<string, ReportedHead> | undefined, before: number): void {
    const value = JSON.parse(toBuffer(bytes).toString()) as Json
    if (request.method === 'eth_blockNumber') this.#checkHeight(Number(value), before)
    const made = this.#provenance.get(bytes)
    if (reported === undefined || made === undefined) return
    const text = JSON.stringify(value)
    const { final } = this.chain
    const isTrue = text === JSON.stringify(responseAt(final, final, request.method, request.params))
    if (isTrue && isAboutNumbers(request)) return void (this.hits.final += 1)
    this.hits.live += 1
    if (!this.#hadAnswerRecently(made.node, request, text)) this.violations.push(`old: ${JSON.stringify(request)} ${text}`)
    if (!isUnchanged(made, reported)) this.violations.push(`of another head: ${JSON.stringify(request)} ${text}`)
  }

  #checkHeight(height: number, before: number): void {
    if (!this.#mayReorg && height < before) this.violations.push(`the height went back from ${before} to ${height}`)
    this.#reportedHeight = Math.max(this.#reportedHeight, height)
  }

  /** Whether the node had this answer at some moment between one interval ago and now. */
  #hadAnswerRecently(node: ModelNode, { method, params }: RpcRequest, text: string): boolean {
    const states = this.#histories.get(node) ?? []
    const from = this.clock.monotonic() - interval
    const firstRecent = states.findLastIndex(({ since }) => since < from)
    return states
      .slice(Math.max(0, firstRecent))
      .some(({ head, final }) => JSON.stringify(responseAt(head, final, method, params)) === text)
  }

  /** A node moves to the tip or somewhere behind it, or finalizes blocks. */
  #sync(): void {
    const [a, b, c] = this.nodes
    const node = this.#pick([a, a, a, a, b, b, b, c, this.replica]) as ModelNode // there are three
    const { tip } = this.chain
    const target = ancestorAt(tip, tip.number - this.#pick([0, 0, 0, 1, 1, 2, 5])) ?? tip
    const least = this.#mayReorg ? node.final.number : node.head.number
    if (target.number >= least) node.head = target
    const { final } = this.chain
    if (this.#isFinalAtOnce) node.final = node.head
    else if (this.#random(3) === 0 && ancestorAt(node.head, final.number) === final) node.final = final
    const history = this.#histories.get(node)
    history?.push({ since: this.clock.monotonic(), head: node.head, final: node.final })
    if (history !== undefined && history.length > 400) history.splice(0, 200)
  }

  /** A node that the pipeline below happens to choose; its state is that of a moment between request and response. */
  readonly #next: Next<ContextKey> = async ({
    context: {
      request: { method, params },
    },
  }) => {
    const { head } = this.replica
    const isInStep = isOnChainOf(head, this.chain.final) && head.number >= (this.#reported.get('a')?.number ?? 0) - 3_000 / blockTime
    const node = this.#pick(isInStep ? [...this.nodes, this.replica] : this.nodes)
    const provenance = { node, newest: newestOf(this.#reported), reported: this.#reported.get(node.name) }
    await this.#wait()
    const value = node.answer(method, params)
    await this.#wait()
    const upstream = node.name
    if (value === undefined) return refuse('unavailable', { upstream })
    if (method === 'eth_blockNumber') return this.#reportHeight(node, Number(value))
    const made = fakeResult(value, { upstream })
    // In a buffer of its own, which the cache does not copy.
    const reply = isFailure(made) ? made : { ...made, result: new Uint8Array(toBuffer(made.result)) }
    if (!isFailure(reply)) this.#provenance.set(reply.result, provenance)
    return reply
  }

  #reportHeight(node: ModelNode, height: number): Reply {
    const known = this.#reported.get(node.name)
    this.#overtaking.set(node.name, Math.max(height, this.#overtaking.get(node.name) ?? 0))
    if (known === undefined || height > known.number) this.#reported.set(node.name, { number: height, hash: undefined })
    // Reported at once, as there are no other processes.
    return fakeResult(toHexQuantity(Number(this.#heads.reportHeight(node.name, height))), { upstream: node.name })
  }

  readonly #poll: UpstreamClient['request'] = async ({ name }, { method, params }) => {
    const node = this.nodes.find(each => each.name === name) ?? this.#pick(this.nodes)
    const isHead = method === 'eth_getBlockByNumber' && params[0] === 'latest'
    if (isHead) this.#overtaking.set(name, 0)
    await this.#wait()
    const value = node.answer(method, params) ?? null
    await this.#wait()
    // In a turn of its own: nothing else is reported between its being recorded here and its being read.
    await new Promise(setImmediate)
    if (isHead) {
      const { number, hash } = value as { number: string; hash: string }
      if (Number(number) >= (this.#overtaking.get(name) ?? 0)) this.#reported.set(name, { number: Number(number), hash })
    }
    return fakeResult(value)
  }

  #wait(): Promise<void> {
    const ms = this.#random(4) === 0 ? this.#random(150) : 0
    return ms === 0 ? Promise.resolve() : new Promise(resolve => void this.clock.after(ms, resolve))
  }

  #createRequest(): RpcRequest {
    const { tip } = this.chain
    const hashAt = (number: number): string => ancestorAt(tip, number)?.hash ?? tip.hash
    const recent = () => Math.max(0, tip.number + 1 - this.#random(10) * (1 + this.#random(3)))
    const block = () => this.#pick<() => Json>([() => 'latest', () => toHexQuantity(recent()), () => ({ blockHash: hashAt(recent()) })])()
    const from = recent()
    const ends = ['latest', toHexQuantity(from), toHexQuantity(from + 3)]
    return this.#pick<() => RpcRequest>([
      () => ({ method: 'eth_blockNumber', params: [] }),
      () => ({ method: 'eth_getStorageAt', params: ['0xa', toHexQuantity(this.#random(4)), block()] }),
      () => ({ method: 'eth_getBlockByNumber', params: [toHexQuantity(from), false] }),
      () => ({ method: 'eth_getBlockByHash', params: [hashAt(from), false] }),
      () => ({ method: 'eth_getTransactionReceipt', params: [transactionAt(from)] }),
      () => ({ method: 'eth_getLogs', params: [{ fromBlock: toHexQuantity(from), toBlock: this.#pick(ends) }] }),
    ])()
  }

  #pick<T>(list: readonly T[]): T {
    return list[this.#random(list.length)] as T // never empty
  }
}

/** Whether the node had reported the newest head before its request, and that head is still the newest reported one. */
const isUnchanged = ({ reported, newest }: Provenance, now: ReadonlyMap<string, ReportedHead>): boolean =>
  reported === undefined ||
  (reported.number === newest &&
    newest === newestOf(now) &&
    [...now.values()].some(({ number, hash }) => number === reported.number && hash === reported.hash))

/** Whether one of the blocks is an ancestor of the other, or both are the same. */
const isOnChainOf = (one: ModelBlock, other: ModelBlock): boolean =>
  ancestorAt(one, Math.min(one.number, other.number)) === ancestorAt(other, Math.min(one.number, other.number))

const newestOf = (reported: ReadonlyMap<string, ReportedHead>): number =>
  [...reported.values()].reduce((most, { number }) => Math.max(most, number), -1)

const isAboutNumbers = ({ params }: RpcRequest): boolean => !JSON.stringify(params).includes('latest')

for (const [what, { seed, steps, minLiveHits }, behavior] of [
  ['nodes that lag and change branches', { seed: 1, steps: 30_000, minLiveHits: 300 }, {}],
  ['nodes that also fall back', { seed: 2, steps: 30_000, minLiveHits: 300 }, { mayFall: true }],
  ['nodes that lag where each block is final at once', { seed: 1, steps: 20_000, minLiveHits: 100 }, { isFinalAtOnce: true }],
] as const) {
  t.test(`${steps} steps with ${what}: each cache hit is as fresh as promised`, async t => {
    const model = new CacheModel(seed, behavior)
    for (let i = 0; i < steps; i++) await model.step()
    t.same(model.violations.slice(0, 5), [])
    t.comment(JSON.stringify(model.hits))
    t.ok(model.hits.live > minLiveHits, 'enough cache hits may change')
    t.ok(model.hits.final > 500, 'enough cache hits are about finalized blocks')
  })
}
