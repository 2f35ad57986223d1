import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import { faults } from '../support/faults.ts'
import type { Finding } from './run.ts'

// Two nodes, everything that nodes do wrong, and 200 calls a second for each.

interface Findings {
  readonly faults: readonly Finding[]
  /** MiB by which the process grew, at most, once it was warm. */
  readonly grown: number
}

/** A small heap, so that what is not needed any more does not count; and nothing of tap, which loads itself everywhere. */
const apart = {
  resourceLimits: { maxOldGenerationSizeMb: 48, maxYoungGenerationSizeMb: 4 },
  execArgv: [], env: { ...process.env, NODE_OPTIONS: '' },
}

const find = async (): Promise<Findings> => {
  const found: Finding[] = []
  let first = 0
  let most = 0
  const watch = setInterval(() => { most = Math.max(most, process.memoryUsage.rss()) }, 20)
  const worker = new Worker(new URL('./run.js', import.meta.url), apart)
  worker.on('message', (finding: Finding | 'warm') => {
    if (finding === 'warm') first = most = process.memoryUsage.rss()
    else found.push(finding)
  })
  const [code] = await once(worker, 'exit').finally(() => clearInterval(watch))
  if (code !== 0) throw new Error(`the thread ended with ${code}`)
  return { faults: found, grown: Math.round((most - first) / (1 << 20)) }
}

const { faults: findings, grown } = await find()
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
