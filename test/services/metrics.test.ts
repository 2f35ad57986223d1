import t from 'tap'
import { withLabels, mergeMetrics, formatMetrics, createMetricsRegistry } from '../../src/services/metrics.ts'

t.test('counters, gauges and histograms come as Prometheus reads them', async t => {
  const metrics = createMetricsRegistry()
  metrics.counter('tollgate_a_total', 'Counts.', { network: 'n', text: 'say "\\"\n' }).add()
  metrics.counter('tollgate_a_total', 'Counts.', { text: 'say "\\"\n', network: 'n' }).add(2)
  metrics.gauge('tollgate_b', 'Stands.').set(7)
  const time = metrics.histogram('tollgate_c_seconds', 'Takes.', { network: 'n' })
  for (const seconds of [0.0005, 0.002, 99]) time.observe(seconds)
  const text = formatMetrics(metrics.families())
  t.match(
    text,
    '# HELP tollgate_a_total Counts.\n# TYPE tollgate_a_total counter\ntollgate_a_total{network="n",text="say \\"\\\\\\"\\n"} 3\n',
  )
  t.match(text, '# TYPE tollgate_b gauge\ntollgate_b 7\n')
  t.match(text, 'tollgate_c_seconds_bucket{network="n",le="0.0005"} 1\n')
  t.match(text, 'tollgate_c_seconds_bucket{network="n",le="0.0025"} 2\n')
  t.match(text, 'tollgate_c_seconds_bucket{network="n",le="10"} 2\n')
  t.match(text, 'tollgate_c_seconds_bucket{network="n",le="+Inf"} 3\n')
  t.match(text, /tollgate_c_seconds_sum\{network="n"\} 99\.0025\ntollgate_c_seconds_count\{network="n"\} 3\n$/)
})

t.test('the counts of several processes add up, and stay what they were', async t => {
  const [one, two] = [createMetricsRegistry(), createMetricsRegistry()]
  one.counter('tollgate_a_total', 'Counts.', { x: '1' }).add(1)
  two.counter('tollgate_a_total', 'Counts.', { x: '1' }).add(10)
  two.counter('tollgate_a_total', 'Counts.', { x: '2' }).add(5)
  two.histogram('tollgate_c_seconds', 'Takes.').observe(1)
  const before = formatMetrics(one.families())
  const text = formatMetrics(mergeMetrics([one.families(), two.families()]))
  t.match(text, 'tollgate_a_total{x="1"} 11\ntollgate_a_total{x="2"} 5\n')
  t.match(text, 'tollgate_c_seconds_count 1\n')
  t.equal(formatMetrics(one.families()), before)
})

t.test('a gauge of several processes is what its maker says, and the greatest where nothing is said', async t => {
  const processes = [1, 0, 3].map(value => {
    const metrics = createMetricsRegistry()
    metrics.gauge('tollgate_open', 'Breaker.', { upstream: 'own' }).set(value)
    metrics.gauge('tollgate_used', 'Cache.', {}, 'least').set(value)
    withLabels(metrics, { network: 'n' }).gauge('tollgate_sockets', 'Sockets.', {}, 'sum').set(value)
    return metrics.families()
  })
  // As they come from another process.
  const text = formatMetrics(mergeMetrics(JSON.parse(JSON.stringify(processes))))
  t.match(text, 'tollgate_open{upstream="own"} 3\n')
  t.match(text, 'tollgate_used 0\n')
  t.match(text, 'tollgate_sockets{network="n"} 4\n')
})
