import { bombs, faults, harmless, isRight } from '../support/faults.ts'
import type { Fault } from '../support/faults.ts'
import { deadUrl, startBlackHole, startFaultyNode, startUntrustedNode } from '../support/faulty.ts'
import type { FaultyNode } from '../support/faulty.ts'
import { openLoad } from './load.ts'
import type { Outcome, Sent } from './load.ts'

// Runs in a process of its own: tap watches every promise of its process, which takes longer than what is measured.

/** What came of one fault. */
export interface Finding {
  readonly name: string
  /** Which of the two nodes have it. */
  readonly who: 'one' | 'both'
  /** That were judged: once the fault was known, where one node has it. */
  readonly calls: number
  readonly right: number
  /** Answers that were not those to the question; of all calls. */
  readonly wrong: readonly string[]
  /** Requests of these calls that reached a node. */
  readonly attempts: number
  /** What callers were told instead. */
  readonly told: readonly string[]
}

/** MiB by which this process grew, at most, once it was warm. */
export interface Growth { readonly grown: number }

/** In ms between two calls: 200 a second. */
const every = 5
/** Calls that are judged, once the fault is known; and with two faulty nodes. */
const judged = 160
/** Calls in a row that did not reach the faulty node: it has been found out. */
const spared = 20
/** So many must have been answered well, for it to be taken as it is. */
const fine = 100

type Start = () => Promise<Pick<FaultyNode, 'url' | 'stop' | 'asked'>>

const extra: Readonly<Record<string, Start>> = {
  'takes connections and reads nothing': startBlackHole,
  'has a certificate of its own': startUntrustedNode,
  'is not there': async () => ({ url: await deadUrl(), stop: async () => undefined, asked: () => 0 }),
}
const subjects: Readonly<Record<string, Start>> = {
  ...Object.fromEntries(Object.entries<Fault>({ ...faults, ...harmless }).map(([name, fault]) => [name, () => startFaultyNode(fault)])), ...extra,
}

/** The first of two nodes is faulty: once that is known, callers must not notice. */
const withOne = async (start: Start): Promise<Omit<Finding, 'name' | 'who'>> => {
  const [faulty, healthy] = await Promise.all([start(), startFaultyNode(isRight)])
  const load = openLoad([faulty.url, healthy.url])
  const attempts = () => faulty.asked('eth_call') + healthy.asked('eth_call')
  const early = await load.send(every, foundOut(() => faulty.asked('eth_call')))
  const before = await ended(early)
  const counted = attempts()
  const late = await ended(await load.send(every, sent => sent.length === judged))
  const found = summary(late, [...before, ...late], attempts() - counted)
  await load.stop()
  await Promise.all([faulty.stop(), healthy.stop()])
  return found
}

/** True once so many calls on end went round the faulty node, while calls were answered; or it answers well. */
const foundOut = (asked: () => number) => {
  const seen: number[] = []
  return (sent: readonly Sent[]): boolean => {
    seen.push(asked())
    const right = (calls: readonly Sent[]) => calls.filter(({ outcome }) => outcome?.is === 'right').length
    return (right(sent.slice(-2 * spared)) >= spared && seen.at(-spared - 1) === seen.at(-1)) || right(sent) >= fine
  }
}

const ended = (sent: readonly Sent[]): Promise<readonly Outcome[]> => Promise.all(sent.map(({ done }) => done))

/** Both fail: the load on them must not double. */
const withBoth = async (start: Start): Promise<Omit<Finding, 'name' | 'who'>> => {
  const nodes = await Promise.all([start(), start()])
  const load = openLoad(nodes.map(node => node.url))
  const all = await ended(await load.send(every, sent => sent.length === judged / 2))
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

for (const make of Object.values(bombs)) make()
// As many gateways at once as later, so that only what faults cost is measured.
await Promise.all([isRight, isRight, isRight, isRight, isRight, faults['sends a brotli bomb']].map(fault => withOne(() => startFaultyNode(fault))))
const warm = process.memoryUsage.rss()
let most = warm
const watch = setInterval(() => { most = Math.max(most, process.memoryUsage.rss()) }, 20)
const isHeavy = (name: string): boolean => /bomb|endlessly|hugely/.test(name)
const work = async (waiting: (readonly [string, Start])[]): Promise<void> => {
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    const [name, start] = next
    process.send?.({ name, who: 'one', ...await withOne(start) } satisfies Finding)
    if (!(name in harmless)) process.send?.({ name, who: 'both', ...await withBoth(start) } satisfies Finding)
  }
}
// Each has a gateway of its own; what takes most memory comes one after the other, as in one gateway.
const all = Object.entries(subjects)
const light = all.filter(([name]) => !isHeavy(name))
await Promise.all([work(all.filter(([name]) => isHeavy(name))), ...Array.from({ length: 5 }, () => work(light))])
clearInterval(watch)
process.send?.({ grown: Math.round((most - warm) / (1 << 20)) } satisfies Growth)
process.disconnect()
