import { execFile } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'

// Also when this file is run alone, on a busy machine.
t.setTimeout(120_000)

/** In a process of its own, in which tap does not load itself: what it watches promises with makes them several times slower. */
const runSimulation = (...args: readonly string[]): Promise<{ readonly code: unknown; readonly said: string }> =>
  new Promise(resolve => {
    const { NODE_OPTIONS: _, ...env } = process.env
    const options = { maxBuffer: 2 ** 26, env }
    execFile(process.execPath, [join(import.meta.dirname, 'main.js'), ...args], options, (error, stdout, stderr) =>
      resolve({ code: error?.code ?? 0, said: stdout + stderr }),
    )
  })

t.test('the ledger keeps its promises in 500 worlds in which all goes wrong that can', async t => {
  const { code, said } = await runSimulation('--seeds', '500')
  t.equal(code, 0, said)
  const [, calls, kills, stops] = /(\d+) calls, (\d+) kills, (\d+) stops/.exec(said)?.map(Number) ?? []
  // Worlds in which nothing happens would prove nothing.
  t.ok(calls !== undefined && calls > 200_000, said)
  t.ok(kills !== undefined && kills > 100 && stops !== undefined && stops > 100, said)
})

t.test('each planted bug is caught, or the checks would be too weak', async t => {
  const { code, said } = await runSimulation('--bugs')
  t.equal(code, 0, said)
})

t.test('a seed that fails says how to replay it, and then fails in the same way', async t => {
  const { code, said } = await runSimulation('--seeds', '1', '--from', '4', '--bug', 'whether or not it is there')
  t.equal(code, 1)
  const [, violation = '', seed = ''] = /^seed 4: (.+)\n.*--seed (\d+)$/m.exec(said) ?? []
  t.ok(violation, said)
  const replayed = await runSimulation('--seed', seed, '--bug', 'whether or not it is there')
  t.equal(replayed.code, 1)
  t.match(replayed.said, `WRONG: ${violation}`)
})

t.test('a seed tells the same story each time', async t => {
  const [first, second] = await Promise.all([runSimulation('--seed', '6'), runSimulation('--seed', '6')])
  t.ok(first.said.length > 10_000)
  t.equal(first.said, second.said)
})
