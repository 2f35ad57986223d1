import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import t from '../support/tap.ts'
import { parse } from 'yaml'
import { metricDefinitions } from '../../src/services/metric-definitions.ts'
import { verifyMetrics } from '../../plugins/verify/metrics.ts'
import type { TypedMetric } from '../../src/services/metrics.ts'
import { networkFile, startGateway } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { hasProgram, runPromtool, startPrometheus } from '../support/prometheus.ts'
import { call, connectWs, post } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'

// The metrics of a running gateway, and what deploy/ says about them.

const alertsFile = 'deploy/prometheus/alerts.yaml'

interface Rule {
  readonly alert: string
  readonly expr: string
}

interface Panel {
  readonly title: string
  readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[]
}

const alerts = (parse(readFileSync(alertsFile, 'utf8')) as { groups: { rules: Rule[] }[] }).groups.flatMap(({ rules }) => rules)
const dashboard = JSON.parse(readFileSync('deploy/grafana/tollgate.json', 'utf8')) as {
  panels: Panel[]
  templating: { list: { query: string }[] }
}

const panelQueries = dashboard.panels.flatMap(({ title, targets = [] }) => targets.map(target => ({ name: title, ...target })))
const alertQueries = alerts.map(({ alert, expr }) => ({ name: alert, expr, legendFormat: '' }))

/** The variables of Grafana, as it would fill them in. */
const fillIn = (expr: string): string => expr.replaceAll('$__rate_interval', '1m').replaceAll(/\$(?:network|job)/g, '.+')

/** The samples of each metric, with their labels. */
const labelsBySample = new Map<string, readonly string[]>()
const definitions: readonly TypedMetric[] = [...Object.values(metricDefinitions), ...Object.values(verifyMetrics)]
for (const { name, type, labels } of definitions) {
  if (type !== 'histogram') labelsBySample.set(name, labels)
  else
    for (const suffix of ['_bucket', '_sum', '_count'])
      labelsBySample.set(`${name}${suffix}`, suffix === '_bucket' ? [...labels, 'le'] : labels)
}
const targetLabels = ['job', 'instance']

t.test('the dashboard and the alert rules name metrics and labels that exist', async t => {
  t.ok(panelQueries.length > 30)
  t.ok(alertQueries.length > 15)
  for (const { name, expr, legendFormat } of [...panelQueries, ...alertQueries]) {
    const samples = Array.from(expr.matchAll(/\b(?:tollgate|process|nodejs)_\w+/g), ([sample]) => sample)
    t.ok(samples.length > 0 || expr.startsWith('up{'), `${name} has a metric`)
    for (const sample of samples) t.ok(labelsBySample.has(sample), `${name}: ${sample}`)
    const known = new Set([...samples.flatMap(sample => labelsBySample.get(sample) ?? []), ...targetLabels])
    const grouped = Array.from(expr.matchAll(/\b(?:by|on|ignoring) \(([^)]*)\)/g), ([, list = '']) => list.split(/, */)).flat()
    const selected = Array.from(expr.matchAll(/([a-z_]+)\s*(?:=~?|!=|!~)\s*"/g), ([, label = '']) => label)
    const shown = Array.from(legendFormat.matchAll(/\{\{(\w+)\}\}/g), ([, label = '']) => label)
    for (const label of [...grouped, ...selected, ...shown]) t.ok(known.has(label), `${name}: label ${label}`)
    for (const label of shown) t.ok(grouped.includes(label), `${name}: ${label} is not aggregated away`)
  }
  for (const { query } of dashboard.templating.list.filter(({ query }) => query.startsWith('label_values'))) {
    const [, sample = '', label = ''] = /^label_values\((\w+), (\w+)\)$/.exec(query) ?? []
    t.ok([...(labelsBySample.get(sample) ?? []), 'job'].includes(label), query)
  }
})

t.test('promtool finds the alert rules valid', { skip: hasProgram('promtool') ? false : 'promtool is not installed' }, async t => {
  t.match(runPromtool(['check', 'rules', alertsFile]), /SUCCESS/)
})

/** For each alert, series of one sample a minute with which it fires alone, in the notation of promtool, and the minute in which it does. */
const firingSeries: Readonly<Record<string, readonly [minute: number, series: Readonly<Record<string, string>>]>> = {
  TollgateDown: [2, { 'up{job="tollgate"}': '0x10' }],
  TollgateNoUpstream: [2, { 'tollgate_upstream_up{network="n",upstream="u"}': '0x10' }],
  TollgateCallsFail: [
    12,
    { 'tollgate_calls_total{network="n",outcome="ok"}': '0+90x20', 'tollgate_calls_total{network="n",outcome="unavailable"}': '0+10x20' },
  ],
  TollgateInternalErrors: [12, { 'tollgate_calls_total{network="n",outcome="internal"}': '_x8 1x20' }],
  TollgateSlowCalls: [
    20,
    {
      'tollgate_call_duration_seconds_bucket{network="n",le="5"}': '0x30',
      'tollgate_call_duration_seconds_bucket{network="n",le="10"}': '0+100x30',
      'tollgate_call_duration_seconds_bucket{network="n",le="+Inf"}': '0+100x30',
    },
  ],
  TollgateHeadStalled: [15, { 'tollgate_head_block{network="n"}': '7x20', 'tollgate_calls_total{network="n",outcome="ok"}': '0+9x20' }],
  TollgateUpstreamDown: [
    8,
    {
      'tollgate_upstream_up{network="n",upstream="u"}': '0x10',
      'tollgate_upstream_up{network="n",upstream="v"}': '1x10',
      'tollgate_upstream_up{network="n",upstream="w"}': '0x10',
      'tollgate_upstream_reduced{network="n",upstream="w",class="all",reason="drained"}': '1x10',
      'tollgate_upstream_reduced{network="n",upstream="w",class="all",reason="lag"}': '1x10',
      'tollgate_upstream_reduced{network="n",upstream="w",class="all",reason="breaker"}': '1x10',
    },
  ],
  TollgateUpstreamExcluded: [8, { 'tollgate_upstream_reduced{network="n",upstream="u",class="all",reason="lag"}': '1x10' }],
  TollgateBreakerOpen: [8, { 'tollgate_upstream_reduced{network="n",upstream="u",class="logs",reason="breaker"}': '1x10' }],
  TollgateUpstreamRateLimited: [15, { 'tollgate_upstream_reduced{network="n",upstream="u",class="all",reason="rateLimited"}': '1x20' }],
  TollgateUpstreamLied: [8, { 'tollgate_upstream_lies_total{network="n",upstream="u"}': '0x5 1x5' }],
  TollgatePluginProblem: [
    8,
    { 'tollgate_plugin_problem{network="n",plugin="verify",problem="beacon-behind",severity="critical"}': '1x10' },
  ],
  TollgateStoreSlow: [
    20,
    {
      'tollgate_store_request_duration_seconds_bucket{instance="a",le="0.25"}': '0+10x30',
      'tollgate_store_request_duration_seconds_bucket{instance="a",le="0.5"}': '0+100x30',
      'tollgate_store_request_duration_seconds_bucket{instance="a",le="+Inf"}': '0+100x30',
    },
  ],
  TollgateStoreEmptied: [1, { 'tollgate_store_unavailable{reason="emptied",instance="a"}': '1x10' }],
  TollgateStoreFull: [8, { 'tollgate_store_used_ratio{limit="memory",instance="a"}': '0.85x10' }],
  TollgateStoreFails: [8, { 'tollgate_store_errors_total{operation="heartbeat"}': '0+1x10' }],
  TollgateSharedCacheDown: [8, { 'tollgate_shared_cache_up{redis="r"}': '0x10' }],
  TollgateMemoryForCallers: [8, { tollgate_in_flight_bytes: '90x10', tollgate_in_flight_max_bytes: '100x10' }],
  TollgateSocketsRefused: [8, { 'tollgate_sockets_refused_total{peer="caller",reason="limit"}': '0x5 1x5' }],
  TollgateCertificateExpires: [70, { 'tollgate_tls_certificate_expiry_timestamp_seconds{option="listen.tls"}': '86400x80' }],
  TollgateJwtKeysUnavailable: [12, { tollgate_jwt_keys_reload_successful: '0x20' }],
  TollgateOpenFiles: [8, { 'process_open_fds{job="tollgate"}': '90x10', 'process_max_fds{job="tollgate"}': '100x10' }],
  TollgateWorkersMissing: [4, { 'tollgate_workers{state="missing"}': '1x10' }],
  TollgateEventLoopLag: [8, { 'nodejs_eventloop_lag_p99_seconds{job="tollgate"}': '0.2x10' }],
  TollgateReloadFailed: [2, { tollgate_config_last_reload_successful: '0x10' }],
  TollgateUsageUndelivered: [
    190,
    {
      'tollgate_usage_webhook_messages_total{result="retried"}': '0x10 1x60 2x60 3x60',
      'tollgate_usage_webhook_messages_total{result="delivered"}': '7x200',
    },
  ],
  TollgateAlertsUndelivered: [8, { 'tollgate_alert_deliveries_total{recipient="account",channel="email",result="failed"}': '0x5 1x5' }],
  TollgateOperatorAlertsUndelivered: [
    8,
    { 'tollgate_alert_deliveries_total{recipient="operators",channel="email",result="failed"}': '0x5 1x5' },
  ],
}

t.test('each alert fires, and no other with it', { skip: hasProgram('promtool') ? false : 'promtool is not installed' }, async t => {
  t.same(Object.keys(firingSeries).sort(), alerts.map(({ alert }) => alert).sort())
  const tests = Object.entries(firingSeries).map(([alert, [minute, series]]) => ({
    interval: '1m',
    input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
    promql_expr_test: [
      {
        expr: 'count by (alertname) (ALERTS{alertstate="firing"})',
        eval_time: `${minute}m`,
        exp_samples: [{ labels: `{alertname="${alert}"}`, value: 1 }],
      },
    ],
  }))
  const dir = t.testdir({ 'rules.yaml': JSON.stringify({ rule_files: [resolve(alertsFile)], evaluation_interval: '1m', tests }) })
  t.match(runPromtool(['test', 'rules', join(dir, 'rules.yaml')]), /SUCCESS/)
})

t.test('a gateway that has served calls', async t => {
  const block = { number: '0x10', hash: `0x${'1'.repeat(64)}`, parentHash: `0x${'2'.repeat(64)}`, timestamp: '0x1' }
  const node = await startFakeNode({
    eth_chainId: { result: '0x7a69' },
    eth_getBlockByNumber: { result: block },
    eth_getBalance: { result: '0x1' },
    eth_gasPrice: { raw: '', status: 502 },
  })
  const networks = { testnet: networkFile('testnet', [node.url, 'http://127.0.0.1:1']) }
  t.teardown(() => node.stop())
  const { deployment, gateway, key } = await startGateway(t, { gateway: { workers: 2 }, networks })
  const address = `0x${'11'.repeat(20)}`
  for (let i = 0; i < 8; i++) {
    const headers = { 'x-request-id': `balance-${i}` }
    t.equal((await call(gateway.http(key), 'eth_getBalance', [address, '0x1'], { headers })).result, '0x1')
  }
  await call(gateway.http(key), 'eth_gasPrice')
  const caller = await connectWs(gateway.ws(key))
  t.teardown(() => caller.close())
  const scrape = (accept = '*/*') => post(`${gateway.admin}/metrics`, '', { method: 'GET', headers: { accept } })

  t.test('shows what calls meet', async t => {
    const { metric } = gateway
    const { text } = await scrape()
    t.equal(await metric('tollgate_calls_total', { method: 'eth_getBalance', outcome: 'ok' }), 8)
    t.equal(await metric('tollgate_cache_lookups_total', { method: 'eth_getBalance' }), 8)
    t.ok((await metric('tollgate_cache_lookups_total', { result: 'miss' })) >= 1)
    t.equal(await metric('tollgate_credits_total'), 640)
    t.equal(await metric('tollgate_calls_in_flight'), 0)
    t.equal(await metric('tollgate_upstream_requests_in_flight'), 0)
    t.equal(await metric('tollgate_head_block'), 16)
    t.equal(await metric('tollgate_websockets'), 1)
    t.ok((await metric('tollgate_connections')) >= 1)
    t.ok((await metric('tollgate_store_request_duration_seconds_count', { operation: 'requestLease' })) >= 1)
    t.equal(await metric('tollgate_store_errors_total'), 0)
    t.equal(await metric('tollgate_workers', { state: 'ready' }), 2)
    t.equal(await metric('tollgate_workers', { state: 'missing' }), 0)
    t.ok((await metric('process_resident_memory_bytes')) > 3 * 20e6, 'of three processes')
    t.ok((await metric('process_cpu_seconds_total')) > 0)
    t.ok((await metric('tollgate_in_flight_max_bytes')) > 500e6)
    t.match(text, /^nodejs_eventloop_lag_p99_seconds \d/m)
    t.notMatch(text, new RegExp(`${key}|alice|acc_`), 'neither keys nor accounts')
  })

  t.test('shows the metrics that are defined, and no others', async t => {
    const { text } = await scrape()
    const defined = new Map(definitions.map(({ name, type }) => [name, type]))
    const shown = new Map(Array.from(text.matchAll(/^# TYPE (\S+) (\S+)$/gm), ([, name = '', type = '']) => [name, type]))
    for (const [name, type] of shown) t.equal(defined.get(name), type, name)
    // What other tests show: it needs Redis, subscriptions, `verify`, a beacon node, a plugin with a problem, a reload, tokens, alerts, a refused socket or a node that is excluded, slow or limited.
    const elsewhere =
      /shared_cache|subscription|verified|upstream_lies|tollgate_tls|tollgate_tokens|reload|alert_deliveries|usage_webhook|sockets_refused|store_used|upstream_reduced|beacon|plugin_problem/
    t.same(
      [...defined.keys()].filter(name => !shown.has(name) && !elsewhere.test(name)),
      [],
    )
  })

  t.test('names requests in exemplars for those who accept OpenMetrics', async t => {
    const { text, headers } = await scrape('application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5')
    t.match(headers['content-type'], /^application\/openmetrics-text; version=1.0.0/)
    t.match(text, /^tollgate_call_duration_seconds_bucket\{network="testnet",le="[\d.]+"\} \d+ # \{request_id="balance-\d"\} [\d.e-]+$/m)
    t.match(text, /^# TYPE tollgate_calls counter$/m)
    t.match(text, /# EOF\n$/)
    const { text: plain, headers: plainHeaders } = await scrape()
    t.match(plainHeaders['content-type'], /^text\/plain; version=0.0.4/)
    t.notMatch(plain, / # /)
  })

  t.test('is shown by tollgate top', async t => {
    const { code, stdout } = await deployment.run('top', '--url', gateway.admin, '--interval', '100ms', '--json')
    t.equal(code, 0)
    const { networks } = JSON.parse(stdout) as {
      networks: readonly { network: string; head: number; nodes: readonly { problems: string[] }[] }[]
    }
    t.match(networks, [{ network: 'testnet', head: 16 }])
    t.equal(networks[0]?.nodes.length, 2)
    t.ok(networks[0]?.nodes.some(({ problems }) => problems.includes('down')))
  })

  t.test('is valid for promtool', { skip: hasProgram('promtool') ? false : 'promtool is not installed' }, async t => {
    t.equal(runPromtool(['check', 'metrics'], (await scrape()).text), '')
  })

  const skip = hasProgram('prometheus') ? false : 'prometheus is not installed'
  t.test('is scraped by a real Prometheus, which answers every query of the dashboard and the alerts', { skip }, async t => {
    const prometheus = await startPrometheus(new URL(gateway.admin).host)
    t.teardown(() => prometheus.stop())
    const query = async (expr: string): Promise<readonly unknown[]> =>
      (await prometheus.get<{ result: readonly unknown[] }>('query', { query: fillIn(expr) })).result
    await waitUntil(async () => (await query('up{job="tollgate"} == 1 and on() count_over_time(up[1m]) > 3')).length === 1)
    for (const { name, expr } of [...panelQueries, ...alertQueries]) t.ok(Array.isArray(await query(expr)), name)
    t.ok((await query(panelQueries[0]?.expr ?? '')).length > 0)
    const end = Date.now() / 1000
    const range = { start: String(end - 600), end: String(end + 60) }
    const exemplars = await prometheus.get<readonly unknown[]>('query_exemplars', {
      query: 'tollgate_call_duration_seconds_bucket',
      ...range,
    })
    t.match(JSON.stringify(exemplars), /"request_id":"balance-\d"/)
  })
})
