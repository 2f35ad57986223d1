import t from '../../support/tap.ts'
import { LatencyTracker } from '../../../src/services/upstream-client/latency-tracker.ts'

const quantilesOf = (latenciesMs: readonly number[]) => {
  const tracker = new LatencyTracker()
  for (const latencyMs of latenciesMs) tracker.record(0, latencyMs)
  return tracker.quantiles
}

t.test('the quantiles of latencies', async t => {
  t.test('are those of the latest 128 calls, whatever came before', async t => {
    const before = Array.from({ length: 1024 }, () => 5000)
    t.same(quantilesOf([...before, ...Array.from({ length: 128 }, (_, i) => 128 - i)]), { p50: 64, p95: 122 })
  })

  t.test('are computed anew with each 16th call, and unknown before', async t => {
    const few = Array.from({ length: 15 }, () => 10)
    t.equal(quantilesOf(few), undefined)
    t.same(quantilesOf([...few, 20]), { p50: 10, p95: 20 })
    t.same(quantilesOf([...few, 20, 7, 7, 7]), { p50: 10, p95: 20 })
  })
})
