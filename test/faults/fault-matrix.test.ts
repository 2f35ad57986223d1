import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { skipUnlessLinux } from '../support/process-memory.ts'
import { partnerFaultNames, faultCases } from './fault-cases.ts'
import type { GatewayResult, FaultResult } from './fault-matrix-run.ts'

// Whole gateways, two nodes, everything that nodes do wrong, and 200 calls a second for each.

const runScript = fileURLToPath(new URL('./fault-matrix-run.js', import.meta.url))
// tap loads itself into every Node.js process that a test starts, but for this.
const child = spawn('env', ['-u', 'NODE_OPTIONS', process.execPath, runScript], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
process.once('exit', () => child.kill('SIGKILL'))
const faultResults: FaultResult[] = []
const gatewayResults: GatewayResult[] = []
child.on('message', (message: FaultResult | GatewayResult) => {
  if ('residentGrowthMiB' in message) gatewayResults.push(message)
  else faultResults.push(message)
})
const [code] = await once(child, 'exit')
if (code !== 0) throw new Error(`the process ended with ${code}`)
const resultsWith = (who: FaultResult['placement']) => faultResults.filter(finding => finding.placement === who)

t.test('one of two nodes is faulty', async t => {
  t.same(
    resultsWith('one')
      .map(({ name }) => name)
      .sort(),
    Object.keys(faultCases).sort(),
  )
  let [all, good] = [0, 0]
  for (const { name, calls, uniqueCalls: questions, correct: right, wrongAnswers: wrong, callerErrors: told, attempts } of resultsWith(
    'one',
  )) {
    t.same(wrong, [], `${name}: nobody gets a wrong answer, or another's`)
    t.ok(right >= 0.99 * calls, `${name}: ${right} of ${calls} right once it is known${told.map(words => `; ${words}`).join('')}`)
    t.ok(attempts <= 1.2 * questions, `${name}: ${attempts} attempts for ${questions} questions`)
    all += calls
    good += right
  }
  t.ok(all >= 10_000 && good >= 0.999 * all, `${good} of ${all} right`)
})

t.test('both nodes are faulty', async t => {
  for (const { name, calls, correct: right, attempts, wrongAnswers: wrong } of resultsWith('both')) {
    // Attempts that are answered are no storm, and 3 are always allowed.
    t.ok(right > 0 || attempts <= 1.2 * calls + 3, `${name}: ${attempts} attempts for ${calls} calls`)
    t.same(wrong, [], `${name}: nobody gets a wrong answer, or another's`)
  }
})

t.test('own nodes are away and the partner is faulty', async t => {
  t.same(
    resultsWith('partner')
      .map(({ name }) => name)
      .sort(),
    [...partnerFaultNames].sort(),
  )
  for (const { name, calls, correct: right, attempts, wrongAnswers: wrong, callerErrors: told } of resultsWith('partner')) {
    if (faultCases[name]?.testBoth === false) t.equal(right, calls, `${name}: ${told}`)
    t.ok(right > 0 || attempts <= 1.2 * calls + 3, `${name}: ${attempts} attempts for ${calls} calls`)
    t.same(wrong, [], `${name}: nobody gets a wrong answer, or another's`)
  }
})

t.test('the log says why a node cannot be reached', async t => {
  for (const [name, { loggedCause: cause }] of Object.entries(faultCases)) {
    const causes = faultResults.flatMap(finding => (finding.name === name ? finding.loggedCauses : []))
    if (cause !== undefined)
      t.ok(
        causes.some(words => cause.test(words)),
        `${name}: ${causes}`,
      )
  }
})

t.test('the gateways stand it', async t => {
  t.same(
    gatewayResults.map(({ exitCode: code }) => code),
    [0, 0],
  )
  t.same(
    gatewayResults.flatMap(({ errorLines: errors }) => errors),
    [],
    'without a bug',
  )
  t.test('with memory within 64 MiB', { skip: skipUnlessLinux }, async t => {
    for (const { gateway, residentGrowthMiB: resident, liveGrowthMiB: live } of gatewayResults) {
      t.ok(live < 64, `${gateway}: ${live} MiB more are needed`)
      // The other gateway has a hundred networks and their calls, a thousand a second, to grow with.
      if (gateway === 'heavy') t.ok(resident < 64, `${gateway}: it grew by ${resident} MiB`)
    }
  })
})
