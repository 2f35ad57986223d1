import { execFile } from 'node:child_process'
import { join } from 'node:path'
import t from '../support/tap.ts'

/** In a process without tap, whose hooks make promises several times slower. */
const runSimulation = (...args: readonly string[]): Promise<{ readonly code: unknown; readonly output: string }> =>
  new Promise(resolve => {
    const { NODE_OPTIONS: _, ...env } = process.env
    const options = { maxBuffer: 2 ** 26, env }
    execFile(process.execPath, [join(import.meta.dirname, 'main.js'), ...args], options, (error, stdout, stderr) =>
      resolve({ code: error?.code ?? 0, output: stdout + stderr }),
    )
  })

t.test('the ledger keeps its invariants in 250 simulations with faults of every kind', async t => {
  const { code, output } = await runSimulation('--seeds', '250')
  t.equal(code, 0, output)
  const [, calls, kills, stops] = /(\d+) calls, (\d+) kills, (\d+) stops/.exec(output)?.map(Number) ?? []
  // Simulations without events would prove nothing.
  t.ok(calls !== undefined && calls > 100_000, output)
  t.ok(kills !== undefined && kills > 50 && stops !== undefined && stops > 50, output)
})

t.test(
  'ten regions at 20 to 250 ms: no credit over a balance, also when one is lost, gateways are killed and a day ends, few calls that wait, little that is forfeited',
  async t => {
    const size = ['--gateways', '2', '--accounts', '300', '--calls', '500', '--warm-up', '120']
    const worlds = ['all', 'back', 'gone', 'small', 'killed'].flatMap(world => ['--world', world])
    const { code, output } = await runSimulation('--regions', ...size, ...worlds)
    t.equal(code, 0, output)
    const lines = output.trim().split('\n')
    t.match(lines, [
      /^ten regions: 50000 calls/,
      /lost for 10 s/,
      /lost for good: .* [1-9]\d*\.\d+ % unavailable/,
      /used up: .* overshoot 0$/,
      /killed, before and after midnight: .* forfeited \([^)]*[1-9][^)]*\), .* 49 kills, .* overshoot 0$/,
    ])
  },
)

t.test('a bound of the regions that does not hold is named, and the command fails', async t => {
  const size = ['--gateways', '2', '--accounts', '300', '--calls', '500', '--warm-up', '2', '--seconds', '5']
  const { code, output } = await runSimulation('--regions', ...size, '--world', 'all', '--changes', '360000')
  t.equal(code, 1)
  t.match(output, /^ {2}DOES NOT HOLD: of calls, at most 0.5 % wait/m)
})

t.test('each injected bug is caught, or the checks would be too weak', async t => {
  const { code, output } = await runSimulation('--bugs')
  t.equal(code, 0, output)
})

t.test('a seed that fails tells how to replay it, and the replay fails in the same way', async t => {
  const { code, output } = await runSimulation('--seeds', '1', '--from', '4', '--bug', 'beyond the remaining credits')
  t.equal(code, 1)
  const [, violation = '', seed = ''] = /^seed 4: (.+)\n.*--seed (\d+)$/m.exec(output) ?? []
  t.ok(violation, output)
  const replayed = await runSimulation('--seed', seed, '--bug', 'beyond the remaining credits')
  t.equal(replayed.code, 1)
  t.match(replayed.output, `VIOLATION: ${violation}`)
})

t.test('a seed gives the same trace each time', async t => {
  const [first, second] = await Promise.all([runSimulation('--seed', '6'), runSimulation('--seed', '6')])
  t.ok(first.output.length > 10_000)
  t.equal(first.output, second.output)
})
