import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { faults } from '../support/faults.ts'
import type { Finding, Growth } from './run.ts'

// Two nodes, everything that nodes do wrong, and 200 calls a second for each.

/** A small heap, so that what is not needed any more does not count. */
const small = ['--max-old-space-size=48', '--max-semi-space-size=2']
const run = fileURLToPath(new URL('./run.js', import.meta.url))
// tap loads itself into every Node.js process that a test starts, but for this.
const child = spawn('env', ['-u', 'NODE_OPTIONS', process.execPath, ...small, run], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
process.once('exit', () => child.kill('SIGKILL'))
const findings: Finding[] = []
let grown = Infinity
child.on('message', (message: Finding | Growth) => {
  if ('grown' in message) grown = message.grown
  else findings.push(message)
})
const [code] = await once(child, 'exit')
if (code !== 0) throw new Error(`the process ended with ${code}`)
const those = (who: Finding['who']) => findings.filter(finding => finding.who === who)

t.test('one of two nodes is faulty', async t => {
  t.ok(those('one').length > Object.keys(faults).length)
  let [all, good] = [0, 0]
  for (const { name, calls, right, wrong, told, attempts } of those('one')) {
    t.same(wrong, [], `${name}: nobody gets a wrong answer, or another's`)
    t.ok(right >= 0.99 * calls, `${name}: ${right} of ${calls} right once it is known${told.map(words => `; ${words}`).join('')}`)
    t.ok(attempts <= 1.2 * calls, `${name}: ${attempts} attempts for ${calls} calls`)
    all += calls
    good += right
  }
  t.ok(all >= 10_000 && good >= 0.999 * all, `${good} of ${all} right`)
})

t.test('both nodes are faulty', async t => {
  for (const { name, calls, right, attempts, wrong } of those('both')) {
    // Attempts that are answered are no storm, and 3 are always allowed.
    t.ok(right > 0 || attempts <= 1.2 * calls + 3, `${name}: ${attempts} attempts for ${calls} calls`)
    t.same(wrong, [], `${name}: nobody gets a wrong answer, or another's`)
  }
})

t.test('memory stays within 64 MiB', async t => {
  t.ok(grown < 64, `it grew by ${grown} MiB`)
})
