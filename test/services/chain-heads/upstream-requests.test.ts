import t from '../../support/tap.ts'
import { refuse } from '../../../src/plugin/reply.ts'
import type { Failure } from '../../../src/plugin/reply.ts'
import { HeadTracker } from '../../../src/services/chain-heads/index.ts'
import { createMetricsRegistry } from '../../../src/services/metrics.ts'
import type { UpstreamClient } from '../../../src/services/upstream-client/index.ts'
import { TestClock, TestLog, fakeResult } from '../../support/fakes.ts'
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
      clock,
      log: new TestLog(),
      metrics: createMetricsRegistry(),
    })
    t.teardown(heads.track([targetOf('a')]))
    const run = async (ms: number) => {
      for (let left = ms; left >= 0; left -= 500) {
        heads.recordActivity()
        await new Promise(setImmediate)
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
