import { setImmediate } from 'node:timers/promises'
import t from '../../support/tap.ts'
import { Cancellation } from '../../../src/plugin/call.ts'
import { refuse } from '../../../src/plugin/reply.ts'
import type { Failure } from '../../../src/plugin/reply.ts'
import { Secret } from '../../../src/plugin/secret.ts'
import { HeadTracker } from '../../../src/services/chain-heads/index.ts'
import { openBlockDataFetcher } from '../../../src/services/chain-heads/upstream-requests.ts'
import { MemoryBudget } from '../../../src/services/memory-budget.ts'
import { createMetricsRegistry } from '../../../src/services/metrics.ts'
import { openUpstreamClient } from '../../../src/services/upstream-client/index.ts'
import type { UpstreamClient } from '../../../src/services/upstream-client/index.ts'
import { TestClock, TestLog, fakeResult } from '../../support/fakes.ts'
import { startFakeNode } from '../../support/fake-node.ts'
import type { ResponseScript } from '../../support/fake-node.ts'
import { shippedMethods } from '../method-table/shipped-table.ts'
import { targetOf } from './model-heads.ts'

t.test('an upstream that limits the rate', async t => {
  const limitedBy = (retryAfter?: number, failure: Partial<Failure> = { category: 'rateLimited' }) => {
    const requestedAt: number[] = []
    const clock = new TestClock()
    const upstreamClient: UpstreamClient = {
      disconnects: () => 0,
      async request(_target, { method }) {
        if (method === 'eth_chainId' && requestedAt.length === 0) return fakeResult('0x1')
        requestedAt.push(clock.monotonic())
        return { ...refuse('unavailable', { cause: 'HTTP 429' }), ...failure, ...(retryAfter !== undefined && { retryAfter }) }
      },
    }
    const heads = new HeadTracker({
      chainId: 1,
      blockTime: 1000,
      upstreamClient,
      errorCategory: shippedMethods.errorCategory,
      clock,
      log: new TestLog(),
      metrics: createMetricsRegistry(),
    })
    t.teardown(heads.track([targetOf('a')]))
    const run = async (ms: number) => {
      for (let left = ms; left >= 0; left -= 500) {
        heads.recordActivity()
        await setImmediate()
        clock.advance(500)
      }
      return requestedAt.slice(1).map((at, i) => at - (requestedAt[i] ?? 0))
    }
    return { run }
  }

  t.test('is not polled before its Retry-After is over', async t => {
    t.same(await limitedBy(20).run(45_000), [20_000, 20_000])
  })

  t.test('without Retry-After is polled after 1 s, 2 s, 4 s, at most 60 s', async t => {
    t.same(await limitedBy().run(190_000), [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000])
  })

  t.test('with a JSON-RPC error is left alone as well', async t => {
    for (const code of [-32005, 429]) {
      const failure = { kind: 'node', fault: 'caller', error: { code, message: 'over the limit' } } as const
      t.same(await limitedBy(undefined, failure).run(16_000), [1000, 2000, 4000, 8000])
    }
  })
})

for (const [kind, method] of [
  ['logs', 'eth_getLogs'],
  ['receipts', 'eth_getBlockReceipts'],
] as const) {
  t.test(`the ${kind} of a block`, async t => {
    const hash = `0x${'1'.repeat(64)}`
    const fetchFrom = async (
      response: ResponseScript,
      passSeconds: readonly number[] = [],
      blockNumber: ResponseScript = { result: '0x1' },
    ) => {
      const [node, clock] = [await startFakeNode({ [method]: response, eth_blockNumber: blockNumber }), new TestClock()]
      const upstreamClient = openUpstreamClient(clock, new MemoryBudget(2 ** 30))
      t.teardown(() => Promise.all([upstreamClient.close(), node.stop()]))
      const { errorCategory } = shippedMethods
      const target = { ...targetOf('a'), url: new Secret(node.url) }
      const fetch = openBlockDataFetcher(target, new Cancellation(), { upstreamClient, clock, errorCategory })
      const fetched = fetch(kind, hash)
      await node.waitForRequests(method, 1)
      for (const seconds of passSeconds) {
        clock.advance(1_000 * seconds)
        await node.waitForRequests('eth_blockNumber', 1)
        await setImmediate()
      }
      return fetched
    }
    const block = (data: string, blockHash = hash) => ({ result: [{ blockHash, data, logs: [{ blockHash }] }] })
    const failure = (code: number, message: string) => fetchFrom({ error: { code, message } })

    t.test('are returned as text', async t => {
      t.same(await fetchFrom(block('0x')), { json: JSON.stringify(block('0x').result) })
    })

    t.test('exceed 32 MiB', async t => {
      t.same(await fetchFrom(block('0'.repeat(33 << 20))), { exceededLimit: '32 MiB' })
    })

    t.test('take longer than 10 s, while the node answers other requests', async t => {
      t.same(await fetchFrom('hang', [5, 5]), { refusal: 'no answer within 10 s' })
    })

    t.test('do not come from a node that answers nothing', async t => {
      t.equal(await fetchFrom('hang', [5, 2, 3], 'hang'), undefined)
    })

    t.test('are refused by an error that is no limit of the rate, by what is no list, and by those of another block', async t => {
      t.same(await failure(-32000, 'unknown block'), { refusal: 'unknown block' })
      t.same(await failure(-32601, 'the method does not exist/is not available'), { refusal: 'the method does not exist/is not available' })
      t.same(await fetchFrom({ result: null }), { refusal: `the result of ${method} is no list` })
      t.same(await fetchFrom(block('0x', `0x${'2'.repeat(64)}`)), { refusal: `the result of ${method} is of another block` })
      t.equal(await failure(-32005, 'daily request count exceeded, request rate limited'), undefined)
      t.equal(await failure(-32000, 'invalid api key'), undefined)
    })
  })
}

t.test('a node that has too many logs for one block, as it says with -32005, is not taken to limit the rate', async t => {
  const node = await startFakeNode({ eth_getLogs: { error: { code: -32005, message: 'query returned more than 10000 results' } } })
  const clock = new TestClock()
  const upstreamClient = openUpstreamClient(clock, new MemoryBudget(2 ** 30))
  t.teardown(() => Promise.all([upstreamClient.close(), node.stop()]))
  const { errorCategory } = shippedMethods
  const fetch = openBlockDataFetcher({ ...targetOf('a'), url: new Secret(node.url) }, new Cancellation(), {
    upstreamClient,
    clock,
    errorCategory,
  })
  for (const count of [1, 2]) {
    t.same(await fetch('logs', `0x${'1'.repeat(64)}`), { exceededLimit: 'query returned more than 10000 results' })
    t.equal(node.received.length, count, 'it is no limit of the rate')
  }
})
