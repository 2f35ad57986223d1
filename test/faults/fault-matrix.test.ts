import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t from '../support/tap.ts'
import { skipUnlessLinux } from '../support/process-memory.ts'
import { partnerFaultNames, faultCases } from './fault-cases.ts'
import type { GatewayResult, FaultResult } from './fault-matrix-run.ts'

// Whole gateways, two nodes for each fault, and 100 calls a second for each pair.

const runScript = fileURLToPath(new URL('./fault-matrix-run.js', import.meta.url))
// `env -u`: tap would load itself into the process.
const child = spawn('env', ['-u', 'NODE_OPTIONS', process.execPath, runScript], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
process.once('exit', () => child.kill('SIGKILL'))
const faultResults: FaultResult[] = []
const gatewayResults: GatewayResult[] = []
child.on('message', (message: FaultResult | GatewayResult) => {
  if ('residentGrowthMiB' in message) gatewayResults.push(message)
  else faultResults.push(message)
})
const [code] = await once(child, 'exit')
if (code !== 0) throw new Error(`fault-matrix-run.js exited with ${code}`)
const resultsWith = (placement: FaultResult['placement']) => faultResults.filter(result => result.placement === placement)

const maxGrowthMiB = 64

/** The retry budget. */
const maxAttemptsPerCall = 1.2

/** A call may always be attempted 3 times more. */
const maxAttempts = (calls: number): number => maxAttemptsPerCall * calls + 3

t.test('one of two nodes is faulty', async t => {
  t.same(
    resultsWith('one')
      .map(({ name }) => name)
      .sort(),
    Object.keys(faultCases).sort(),
  )
  let [totalCalls, totalCorrect] = [0, 0]
  for (const { name, calls, uniqueCalls, correctCalls, wrongResponses, callerErrors, attempts } of resultsWith('one')) {
    t.same(wrongResponses, [], `${name}: no caller gets a wrong response, or that of another call`)
    t.ok(correctCalls >= 0.99 * calls, `${name}: ${[`${correctCalls} of ${calls} correct after detection`, ...callerErrors].join('; ')}`)
    t.ok(attempts <= maxAttemptsPerCall * uniqueCalls, `${name}: ${attempts} attempts for ${uniqueCalls} calls`)
    totalCalls += calls
    totalCorrect += correctCalls
  }
  t.ok(totalCalls >= 9_000 && totalCorrect >= 0.999 * totalCalls, `${totalCorrect} of ${totalCalls} correct`)
})

t.test('both nodes are faulty', async t => {
  for (const { name, calls, correctCalls, attempts, wrongResponses } of resultsWith('both')) {
    t.ok(correctCalls > 0 || attempts <= maxAttempts(calls), `${name}: ${attempts} attempts for ${calls} calls`)
    t.same(wrongResponses, [], `${name}: no caller gets a wrong response, or that of another call`)
  }
})

t.test('own nodes are unreachable and the partner is faulty', async t => {
  t.same(
    resultsWith('partner')
      .map(({ name }) => name)
      .sort(),
    [...partnerFaultNames].sort(),
  )
  for (const { name, calls, correctCalls, attempts, wrongResponses, callerErrors } of resultsWith('partner')) {
    if (faultCases[name]?.testBoth === false) t.equal(correctCalls, calls, `${name}: ${callerErrors}`)
    t.ok(correctCalls > 0 || attempts <= maxAttempts(calls), `${name}: ${attempts} attempts for ${calls} calls`)
    t.same(wrongResponses, [], `${name}: no caller gets a wrong response, or that of another call`)
  }
})

t.test('the log gives the cause why a node is unreachable', async t => {
  for (const [name, { loggedCause }] of Object.entries(faultCases)) {
    const causes = faultResults.flatMap(result => (result.name === name ? result.loggedCauses : []))
    if (loggedCause !== undefined)
      t.ok(
        causes.some(cause => loggedCause.test(cause)),
        `${name}: ${causes}`,
      )
  }
})

t.test('the gateways survive all faults', async t => {
  t.same(
    gatewayResults.map(({ exitCode }) => exitCode),
    [0, 0],
  )
  t.same(
    gatewayResults.flatMap(({ errorLines }) => errorLines),
    [],
    'without an internal error',
  )
  t.test('with less than 64 MiB of memory', { skip: skipUnlessLinux }, async t => {
    for (const { gateway, residentGrowthMiB, liveGrowthMiB } of gatewayResults) {
      t.ok(liveGrowthMiB < maxGrowthMiB, `${gateway}: live memory grew by ${liveGrowthMiB} MiB`)
      // The gateway `light` also grows with a hundred networks and a thousand calls a second.
      if (gateway === 'heavy') t.ok(residentGrowthMiB < maxGrowthMiB, `${gateway}: resident memory grew by ${residentGrowthMiB} MiB`)
    }
  })
})
