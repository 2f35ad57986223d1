import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, symlinkSync, unlinkSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from '../support/tap.ts'
import { createResponseCheck } from './load/response-check.ts'
import { requestIdOf } from './load/connections.ts'
import type { LoadConnection } from './load/connections.ts'
import { LoadGenerator } from './load/load-generator.ts'
import { cpuDifference, ratioOf, spreadOf } from './figures.ts'

void t.test('the median of an even number of rounds lies between the middle two', async t => {
  t.same(spreadOf([4, 1, 3, 2]), { median: 2.5, min: 1, max: 4 })
  t.same(spreadOf([3, undefined, 1, 2]), { median: 2, min: 1, max: 3 })
  t.equal(spreadOf([undefined]), undefined)
})

void t.test('a ratio is that of the medians, its spread that of the rounds', async t => {
  t.same(ratioOf([10, 30, 20], [10, 10, 40]), { median: 2, min: 0.5, max: 3 })
  t.equal(ratioOf([undefined], [1]), undefined)
})

void t.test('the cost of a plugin is the median of the differences within the rounds', async t => {
  const rowOf = (name: string, cpu: readonly number[]) => ({
    name,
    rounds: cpu.map(cpuMicrosPerCall => ({ cpuMicrosPerCall, callsPerSecond: 1, p50: 1, p99: 1, responseMB: 1 })),
  })
  const { value } = cpuDifference([rowOf('plain', [10, 30, 20]), rowOf('with', [12, 31, 24])], 'with', 'plain')
  t.same(value, { median: 2, min: 1, max: 4 })
})

void t.test('a wrong response is detected', async t => {
  const body = (id: number, result: string) => [Buffer.from(`{"jsonrpc":"2.0","id":${id},"result":"${result}"}`)]
  const check = (first: readonly Buffer[], status = 200, then = first) => {
    const check = createResponseCheck({ status: 200, result: '"0x1"' })
    const received = (body: readonly Buffer[]) => ({ status, body, bodyBytes: Buffer.concat(body).length })
    return check(0, received(first)) ?? check(1, received(then))
  }
  t.equal(check(body(requestIdOf(0), '0x1')), undefined)
  t.match(check(body(requestIdOf(0), '0x1'), 503), 'HTTP 503')
  t.match(check(body(requestIdOf(0), '0x2')), 'the result is not')
  t.match(check(body(7, '0x1')), 'the id is not')
  t.match(check([Buffer.from('{"error":{}}')]), 'without "result"')
  t.match(check([Buffer.from('"result"')].concat(Buffer.from('{'))), 'not JSON')
  t.match(check(body(requestIdOf(0), '0x1'), 200, body(requestIdOf(1), '0x123')), 'a response of')
})

void t.test('each of the calls that take turns has its own expected response, and so has each call of a batch', async t => {
  const batch = (...results: readonly string[]) => results.map((result, i) => ({ jsonrpc: '2.0', id: i + 1, result }))
  const check = (...results: readonly string[]) => {
    const body = Buffer.from(JSON.stringify(batch(...results)))
    const received = { status: 200, body: [body], bodyBytes: body.length }
    return createResponseCheck({ status: 200, results: ['"0x1"', '"0x2"'], batchSize: 2 })(0, received)
  }
  t.equal(check('0x1', '0x2'), undefined)
  t.match(check('0x2', '0x1'), 'the result is not "0x1"')
  const generator = new LoadGenerator(['"0x1"', '"0x2"'].map(result => ({ body: `[#id#,${result}]`, status: 200, result })))
  const sent: string[] = []
  const connection: LoadConnection = {
    send(n, message) {
      sent.push(message)
      const body = Buffer.from(`{"jsonrpc":"2.0","id":${requestIdOf(n)},"result":"0x1"}`)
      setImmediate(() => generator.onResponse(connection, n, 200, [body]))
    },
    close: () => undefined,
  }
  generator.setConnections([connection])
  await t.rejects(generator.run({ durationMs: 60_000 }), { message: /the result is not "0x2"/ })
  t.same(sent, [`[${requestIdOf(0)},"0x1"]`, `[${requestIdOf(1)},"0x2"]`])
})

void t.test('a benchmark that cannot begin says why', async t => {
  const main = fileURLToPath(new URL('./bench.js', import.meta.url))
  const run = promisify(execFile)(process.execPath, [main, '--only', 'cached', '--compare', 'no-such-commit'])
  await t.rejects(run, { code: 1, stderr: /^bench: git knows no commit no-such-commit$/m })
})

void t.test('the benchmark measures a case, its baselines, another commit, and a plugin', async t => {
  const root = fileURLToPath(new URL('../../../', import.meta.url))
  const { stdout: head } = await promisify(execFile)('git', ['-C', root, 'rev-parse', 'HEAD'])
  const built = join(root, 'dist-bench', head.trim())
  if (!existsSync(built)) {
    mkdirSync(dirname(built), { recursive: true })
    symlinkSync(root, built) // as if the commit had been built before
    t.teardown(() => unlinkSync(built))
  }
  const json = join(t.testdir(), 'results.json')
  const main = fileURLToPath(new URL('./bench.js', import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, [
    main,
    '--quick',
    '--rounds',
    '1',
    '--only',
    'cached,recorded',
    '--json',
    json,
    '--compare',
    'HEAD',
    '--plugin',
    join(root, 'docs/examples/call-limit.js'),
    '--with',
    '{ calls: 1000000 }',
    '--below',
    'key-auth',
  ])
  t.match(stdout, /CPU of tollgate \/ bare node:http/)
  t.match(stdout, /CPU of tollgate \/ tollgate at HEAD/)
  t.match(stdout, /CPU of tollgate \/ parsing proxy/)
  t.match(stdout, /CPU of tollgate with call-limit\.js, above tollgate +-?\d/)
  const {
    results: [{ rows }, recorded],
  } = JSON.parse(await readFile(json, 'utf8'))
  t.match(rows, [
    { name: 'tollgate' },
    { name: 'bare node:http' },
    { name: 'Koa' },
    { name: 'tollgate at HEAD' },
    { name: 'tollgate with call-limit.js' },
  ])
  t.match(recorded, {
    name: 'recorded',
    rows: [{ name: 'tollgate' }, { name: 'parsing proxy' }, { name: 'tollgate at HEAD' }, { name: 'tollgate with call-limit.js' }],
  })
  const allRows: readonly { rounds: readonly { callsPerSecond: number }[] }[] = [...rows, ...recorded.rows]
  t.ok(allRows.every(({ rounds }) => (rounds[0]?.callsPerSecond ?? 0) > 0))
})
