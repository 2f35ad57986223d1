import { setImmediate as turn } from 'node:timers/promises'
import type { Test } from 'tap'
import failover from '../../../plugins/failover/index.ts'
import type { Call, ContextKey, Target } from '../../../src/plugin/call.ts'
import { refuse } from '../../../src/plugin/reply.ts'
import type { Failure, Reply } from '../../../src/plugin/reply.ts'
import { Secret } from '../../../src/plugin/secret.ts'
import { createMetricsRegistry } from '../../../src/services/metrics.ts'
import { NodeStatuses } from '../../../src/services/node-status.ts'
import type { Heads, UpstreamClient } from '../../../src/services/index.ts'
import { shippedMethods } from '../../services/method-table/shipped-table.ts'
import { TestClock, TestLog, createStage, fakeAccount, fakeCall, fakeResult } from '../../support/fakes.ts'

export const node = (name: string, over = {}) => ({ name, url: new Secret(`http://${name}.test`), ...over })
export const breaker = { openFor: 60_000 }
export const partner = { ...node('p'), methods: ['eth_getLogs'], when: 'outage' }
export const growth = { account: { ...fakeAccount, plan: { ...fakeAccount.plan, forwarding: true } } }

export const getLogs = (over = {}) => fakeCall('eth_getLogs', [{}], over)
export const getReceipt = (over = {}) => fakeCall('eth_getTransactionReceipt', ['0x1'], over)
export const failure = (name: string, over: Partial<Failure> = {}): Failure => ({
  ...refuse('unavailable', { source: 'node', upstream: name, cause: 'HTTP 500' }),
  ...over,
})
/** Counted by no breaker, as callers can cause it. */
export const uncounted = (name: string): Failure => failure(name, { retryElsewhere: true })
export const rateLimited = (retryAfter?: number): Failure =>
  failure('a', { category: 'rateLimited', cause: 'HTTP 429', ...(retryAfter !== undefined && { retryAfter }) })

const none: ReadonlySet<string> = new Set()

/** What a node replies to a call. */
export type Responder = (call: Call<ContextKey>) => Reply | Promise<Reply>

/** A failover stage over nodes whose replies the test gives; a node without a responder fails. */
export const openFailover = (
  t: Pick<Test, 'teardown'>,
  responders: Record<string, Responder>,
  options: object = {},
  {
    respondToProbe = () => failure('x'),
    respondToChainId = () => fakeResult('0x7a69'),
    heads,
    drained,
  }: {
    respondToProbe?: (timeoutMs: number, name: string) => Reply | Promise<Reply>
    respondToChainId?: () => Reply | Promise<Reply>
    heads?: Heads
    /** Names of nodes. */
    drained?: ReadonlySet<string>
  } = {},
) => {
  const clock = new TestClock()
  const log = new TestLog()
  /** Requests that failover sends on its own: `a eth_blockNumber`. */
  const probes: string[] = []
  const upstreamClient: UpstreamClient = {
    disconnects: () => 0,
    async request({ name }, { method }, { timeoutMs }) {
      probes.push(`${name} ${method}`)
      return method === 'eth_chainId' ? respondToChainId() : respondToProbe(timeoutMs, name)
    },
  }
  const metrics = createMetricsRegistry()
  const nodes = new NodeStatuses(metrics, {
    isCurrent: true,
    of: () => drained ?? none,
    since: () => undefined,
    onReadmitted: () => undefined,
    onChange: () => () => undefined,
  }).of('devnet')
  const services = { methods: shippedMethods, upstreamClient, clock, log, metrics, nodes, ...(heads && { heads }) }
  const stage = createStage(failover, { upstreams: [node('a'), node('b')], breaker, ...options }, services)
  t.teardown(() => stage.stop?.())
  /** The names of the requested nodes, in order. */
  const requested: string[] = []
  const targets = new Map<string, Target>()
  const variantOf = ({ context, origin }: Call<ContextKey>) => failover.vary?.(context as never, { ...options } as never, origin) // its own options
  const request = (call: Call<ContextKey>) =>
    stage.handle({ ...call, variant: variantOf(call) }, async below => {
      const { context } = below as Call<ContextKey> // the pipeline passes the whole context
      requested.push(context.target.name)
      targets.set(context.target.name, context.target)
      return responders[context.target.name]?.(below as Call<ContextKey>) ?? failure(context.target.name)
    })
  const requestMany = async (count: number, call: () => Call<ContextKey> = getLogs) => {
    for (let i = 0; i < count; i++) await request(call())
  }
  const countOf = (name: string) => requested.filter(each => each === name).length
  /** The node as it was last requested. */
  const targetOf = (name: string): Target => {
    const target = targets.get(name)
    if (target === undefined) throw new Error(`node ${name} was not requested`)
    return target
  }
  /** Time passes, and probes end that are due. */
  const advance = async (ms: number) => {
    clock.advance(ms)
    await turn()
  }
  return { request, requestMany, requested, countOf, targetOf, probes, clock, advance, log, services, stage }
}
