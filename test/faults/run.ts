import { setTimeout as wait } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import { bombs, closesKept, faults, isRight, packs } from '../support/faults.ts'
import type { Fault } from '../support/faults.ts'
import { deadUrl, startBlackHole, startFaultyNode, startUntrustedNode } from '../support/faulty.ts'
import type { FaultyNode } from '../support/faulty.ts'
import { openLoad } from './load.ts'
import type { Outcome } from './load.ts'

// Runs in a thread of its own: tap watches every promise of its thread, which takes longer than what is measured.

/** What came of one fault. */
export interface Finding {
  readonly name: string
  readonly calls: number
  readonly right: number
  /** Answers that were not those to the question; of all calls. */
  readonly wrong: readonly string[]
  /** Calls that reached a node. */
  readonly attempts: number
  /** What callers were told instead. */
  readonly told: readonly string[]
}

const rate = 200
/** In ms. A hanging node is found out after 400 ms of silence and 1 s for its pulse. */
const lengths = { before: 250, after: 250, both: 250 }

type Start = () => Promise<Pick<FaultyNode, 'url' | 'stop' | 'asked'>>

const extra: Readonly<Record<string, Start>> = {
  'takes connections and reads nothing': startBlackHole,
  'has a certificate of its own': startUntrustedNode,
  'is not there': async () => ({ url: await deadUrl(), stop: async () => undefined, asked: () => 0 }),
  'closes kept connections': () => startFaultyNode(closesKept),
  'packs without being asked': () => startFaultyNode(packs('gzip')),
}
const subjects: Readonly<Record<string, Start>> = {
  ...Object.fromEntries(Object.entries<Fault>(faults).map(([name, fault]) => [name, () => startFaultyNode(fault)])), ...extra,
}

/** The first of two nodes is faulty: once that is known, callers must not notice. */
const withOne = async (start: Start): Promise<Omit<Finding, 'name'>> => {
  const [faulty, healthy] = await Promise.all([start(), startFaultyNode(isRight)])
  const load = openLoad([faulty.url, healthy.url])
  const early = load.run(rate, lengths.before)
  await wait(lengths.before)
  await early.oldest
  await wait(100) // for the others that were sent with it
  const late = await load.run(rate, lengths.after).all
  const all = [...await early.all, ...late]
  await load.stop()
  await Promise.all([faulty.stop(), healthy.stop()])
  return summary(late, all, faulty.asked('eth_call') + healthy.asked('eth_call'))
}

/** Both fail: the load on them must not double. */
const withBoth = async (start: Start): Promise<Omit<Finding, 'name'>> => {
  const nodes = await Promise.all([start(), start()])
  const load = openLoad(nodes.map(node => node.url))
  const all = await load.run(rate, lengths.both).all
  await load.stop()
  await Promise.all(nodes.map(node => node.stop()))
  return summary(all, all, nodes.reduce((sum, node) => sum + node.asked('eth_call'), 0))
}

const summary = (late: readonly Outcome[], all: readonly Outcome[], attempts: number) => ({
  calls: late.length,
  right: late.filter(({ is }) => is === 'right').length,
  wrong: all.flatMap(({ is, why = '' }) => is === 'wrong' ? [why] : []),
  attempts,
  told: [...new Set(late.flatMap(({ why }) => why ?? []))],
})

const run = workerData === 'one' ? withOne : withBoth
for (const make of Object.values(bombs)) make()
await run(() => startFaultyNode(isRight))
parentPort?.postMessage('warm')
const all = Object.entries(subjects)
const atOnce = workerData === 'one' ? 2 : 6
for (let i = 0; i < all.length; i += atOnce) {
  const group = all.slice(i, i + atOnce)
  const found = await Promise.all(group.map(([, start]) => run(start)))
  for (const [k, [name, start]] of group.entries()) {
    const first = found[k]!
    // A busy machine spoils a run now and then, but not twice. A wrong answer is never forgiven.
    const isFine = workerData !== 'one' || first.wrong.length > 0 || first.right === first.calls
    parentPort?.postMessage({ name, ...isFine ? first : await run(start) } satisfies Finding)
  }
}
