import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import t from '../support/tap.ts'
import { metricDefinitions } from '../../src/services/metric-definitions.ts'
import { WorkerCounts, mergeMetrics } from '../../src/cluster/merge-metrics.ts'
import { collectProcessMetrics } from '../../src/services/process-metrics.ts'
import { systemClock } from '../../src/services/clock.ts'
import { formatMetrics, withLabels, createMetricsRegistry } from '../../src/services/metrics.ts'
import type { TypedMetric } from '../../src/services/metrics.ts'
import { TestClock } from '../support/fakes.ts'

const requests = { name: 'tollgate_a_total', type: 'counter', help: 'Counts.', labels: ['network', 'text'] } as const
const counts = { name: 'tollgate_a_total', type: 'counter', help: 'Counts.', labels: ['x'] } as const
const level = { name: 'tollgate_b', type: 'gauge', help: 'Stands.', labels: [] } as const
const time = { name: 'tollgate_c_seconds', type: 'histogram', help: 'Takes.', labels: ['network'] } as const

t.test('counters, gauges and histograms are formatted as Prometheus reads them', async t => {
  const metrics = createMetricsRegistry()
  metrics.counter(requests, { network: 'n', text: 'say "\\"\n' }).add()
  metrics.counter(requests, { text: 'say "\\"\n', network: 'n' }).add(2)
  metrics.gauge(level, {}).set(7)
  const durations = metrics.histogram(time, { network: 'n' })
  for (const seconds of [0.0005, 0.002, 99]) durations.observe(seconds)
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

t.test('series are removed by their labels, and begin anew', async t => {
  const metrics = createMetricsRegistry()
  const [one, two] = ['one', 'two'].map(network => withLabels(metrics, { network }))
  const open = (network: typeof one) => network?.counter({ ...counts, labels: ['network', 'x'] }, { x: 'y' })
  for (const network of [one, two]) open(network)?.add(3)
  one?.histogram(time, {}).observe(1)
  one?.removeSeries({ x: 'z' })
  one?.removeSeries({}, [time])
  t.same(
    metrics.families().map(({ name, series }) => [name, series.length]),
    [['tollgate_a_total', 2]],
  )
  one?.removeSeries({})
  t.match(metrics.families(), [{ series: [{ labels: { network: 'two' } }] }])
  open(one)?.add()
  t.match(metrics.families()[0]?.series[1], { labels: { network: 'one' }, values: [1] })
})

t.test('the counters of several processes add up, and the originals do not change', async t => {
  const [one, two] = [createMetricsRegistry(), createMetricsRegistry()]
  one.counter(counts, { x: '1' }).add(1)
  two.counter(counts, { x: '1' }).add(10)
  two.counter(counts, { x: '2' }).add(5)
  two.histogram(time, { network: 'n' }).observe(1)
  const before = formatMetrics(one.families())
  const text = formatMetrics(mergeMetrics([one.families(), two.families()]))
  t.match(text, 'tollgate_a_total{x="1"} 11\ntollgate_a_total{x="2"} 5\n')
  t.match(text, 'tollgate_c_seconds_count{network="n"} 1\n')
  t.equal(formatMetrics(one.families()), before)
})

t.test('labels are those of one series in whatever order they come, and of another where any differs', async t => {
  const lookups = { name: 'tollgate_d_total', type: 'counter', help: 'D.', labels: ['method', 'result'] } as const
  const [one, two] = [createMetricsRegistry(), createMetricsRegistry()]
  one.counter(lookups, { method: 'a', result: 'b' }).add(1)
  one.counter(lookups, { result: 'b', method: 'a' }).add(2)
  one.counter(lookups, { method: 'ab', result: '' }).add(4)
  two.counter(lookups, { result: 'b', method: 'a' }).add(8)
  const [family] = mergeMetrics([one.families(), two.families()])
  t.same(
    family?.series.map(({ values }) => values[0]),
    [11, 4],
  )
})

const open = { name: 'tollgate_open', type: 'gauge', help: 'Breaker.', labels: ['upstream'] } as const
const up = { name: 'tollgate_up', type: 'gauge', help: 'Cache.', labels: [], aggregation: 'min' } as const
const sockets = { name: 'tollgate_sockets', type: 'gauge', help: 'Sockets.', labels: ['network'], aggregation: 'sum' } as const

t.test('a gauge of several processes is aggregated as its definition says, and is the maximum by default', async t => {
  const processes = [1, 0, 3].map(value => {
    const metrics = createMetricsRegistry()
    metrics.gauge(open, { upstream: 'own' }).set(value)
    metrics.gauge(up, {}).set(value)
    withLabels(metrics, { network: 'n' }).gauge(sockets, {}).set(value)
    return metrics.families()
  })
  // Sent by another process.
  const text = formatMetrics(mergeMetrics(JSON.parse(JSON.stringify(processes))))
  t.match(text, 'tollgate_open{upstream="own"} 3\n')
  t.match(text, 'tollgate_up 0\n')
  t.match(text, 'tollgate_sockets{network="n"} 4\n')
})

t.test('no counter of several workers goes back when one of them exits or does not answer; its gauges go', async t => {
  const openWorker = (calls: number) => {
    const metrics = createMetricsRegistry()
    const ofNetwork = withLabels(metrics, { network: 'n' })
    metrics.counter(counts, { x: '1' }).add(calls)
    ofNetwork.histogram(time, {}).observe(1)
    ofNetwork.gauge(sockets, {}).set(calls)
    return metrics
  }
  const [one, two] = [openWorker(1), openWorker(10)]
  const workers = new WorkerCounts<typeof one>()
  for (const worker of [one, two]) workers.record(worker, worker.families())
  const textOf = (...replies: (readonly [typeof one, ReturnType<typeof one.families> | undefined])[]) =>
    formatMetrics(mergeMetrics(workers.complete(new Map(replies))))
  const counted = 'tollgate_a_total{x="1"} 11\n'
  t.match(textOf([one, one.families()], [two, undefined]), counted)
  const lastReply = two.families()
  workers.removeWorker(two)
  for (const text of [textOf([one, one.families()]), textOf([one, one.families()], [two, lastReply])]) {
    t.match(text, counted)
    t.match(text, 'tollgate_c_seconds_count{network="n"} 2\n')
    t.match(text, 'tollgate_sockets{network="n"} 1\n')
  }
  t.match(textOf([one, undefined]), counted)
  // A reload removes the network, and another one adds it again.
  one.removeSeries({ network: 'n' })
  const removed = textOf([one, one.families()])
  t.match(removed, counted)
  t.notMatch(removed, 'network="n"')
  withLabels(one, { network: 'n' }).histogram(time, {}).observe(1)
  t.match(textOf([one, one.families()]), 'tollgate_c_seconds_count{network="n"} 1\n')
})

t.test('of a worker that exits only what is not 0 is kept, without examples, and while other workers have the metric', async t => {
  const [one, two] = [createMetricsRegistry(), createMetricsRegistry()]
  for (const worker of [one, two]) {
    worker.histogram(time, { network: 'n' })
    worker.counter(counts, { x: '1' })
  }
  two.counter(counts, { x: '1' }).add()
  two.counter({ ...counts, name: 'tollgate_of_plugin_total' }, { x: '1' }).add()
  two.histogram(time, { network: 'n' }).observe(1, 'request-1')
  two.histogram(time, { network: 'm' })
  const workers = new WorkerCounts<typeof one>()
  for (const worker of [one, two]) workers.record(worker, worker.families())
  workers.removeWorker(two)
  const keptOf = (...replies: (readonly [typeof one, ReturnType<typeof one.families>])[]) =>
    workers
      .complete(new Map(replies))
      .at(-1)
      ?.map(({ name, series }) => [name, series.length, series.some(({ exemplars }) => exemplars !== undefined)])
      .sort()
  const kept = [
    ['tollgate_a_total', 1, false],
    ['tollgate_c_seconds', 1, false],
  ]
  t.same(keptOf(), [...kept, ['tollgate_of_plugin_total', 1, false]])
  t.same(keptOf([one, one.families()]), kept)
})

const definitions: readonly TypedMetric[] = Object.values(metricDefinitions)

t.test('metrics follow the naming conventions of Prometheus', async t => {
  for (const { name, type, help, labels } of definitions) {
    t.match(name, /^(?:tollgate|process|nodejs)(_[a-z\d]+)+$/)
    t.equal(name.endsWith('_total'), type === 'counter', name)
    if (type === 'histogram') t.match(name, /_seconds$/)
    t.match(help, /^[A-Z1].*[.]$/, name)
    for (const label of labels) t.match(label, /^[a-z]+$/, name)
  }
  t.equal(new Set(definitions.map(({ name }) => name)).size, definitions.length)
})

t.test('the metrics of the gateway and its plugins are named in one place', async t => {
  const files = ['src', 'plugins'].flatMap(folder =>
    (readdirSync(folder, { recursive: true }) as string[]).filter(file => file.endsWith('.ts')).map(file => join(folder, file)),
  )
  t.same(
    files.filter(file => /['"`]tollgate_/.test(readFileSync(file, 'utf8'))),
    [
      ...['metric-definitions.ts', 'system-metric-definitions.ts'].map(file => join('src', 'services', file)),
      // verify has metrics of its own, as it is written against `tollgate/plugin` alone.
      join('plugins', 'verify', 'metrics.ts'),
    ],
  )
})

t.test('the series of a network are removed without those of others, by some of their labels too, and may come again', async t => {
  const metrics = createMetricsRegistry()
  const calls = { name: 'calls_total', help: 'Calls.', type: 'counter', labels: ['network', 'node'] } as const
  const lag = { name: 'lag', help: 'Lag.', type: 'gauge', labels: ['network'] } as const
  const open = () => {
    for (const network of ['a', 'b']) {
      for (const node of ['x', 'y']) metrics.counter(calls, { network, node }).add()
      metrics.gauge(lag, { network }).set(1)
    }
  }
  const left = () =>
    metrics
      .families()
      .flatMap(({ name, series }) => series.map(({ labels, values }) => [name, ...Object.values(labels), ...values].join(' ')))
  open()
  metrics.removeSeries({ network: 'a', node: 'x' })
  t.same(left(), ['calls_total a y 1', 'calls_total b x 1', 'calls_total b y 1', 'lag a 1', 'lag b 1'])
  metrics.removeSeries({ network: 'a' }, [lag])
  metrics.removeSeries({ node: 'y' })
  t.same(left(), ['calls_total b x 1', 'lag b 1'])
  open()
  t.same(left().sort(), ['calls_total a x 1', 'calls_total a y 1', 'calls_total b x 2', 'calls_total b y 1', 'lag a 1', 'lag b 1'])
  metrics.removeSeries({ network: 'b' })
  metrics.removeSeries({ network: 'a' })
  t.same(left(), [])
})

t.test('the lag of the event loop is the same for all who read metrics at the same time', async t => {
  const metrics = createMetricsRegistry()
  const clock = new TestClock()
  const stop = collectProcessMetrics(metrics, '1.2.3', clock)
  t.teardown(stop)
  const read = () => metrics.families().find(({ name }) => name === metricDefinitions.eventLoopDelayP99.name)?.series[0]?.values[0] ?? 0
  t.equal(read(), 0, 'it is measured from now on')
  const until = systemClock.monotonic() + 300
  // The monitor has begun with its first timer.
  await setTimeout(50)
  while (systemClock.monotonic() < until);
  await setTimeout(50)
  t.equal(read(), 0, 'so soon nothing is told')
  clock.advance(3_000)
  const lag = read()
  t.ok(lag > 0.15, `the loop stood for 250 ms: ${lag}`)
  t.equal(read(), lag, 'for the next one too')
  clock.advance(3_000)
  t.ok(read() < lag, 'a new time begins')
})
