import { bombs, faults, isRight } from '../support/faults.ts'
import type { Fault } from '../support/faults.ts'
import { authority, blockTime, startFaultyNode } from '../support/faulty.ts'
import { createDeployment, networkFile } from '../support/gateway.ts'
import type { Gateway } from '../support/gateway.ts'
import { liveOf, noMemory, residentOf, telling } from '../support/memory.ts'
import { openCallers } from './load.ts'
import type { Callers, Outcome, Sent } from './load.ts'
import { ofPartners, subjects } from './subjects.ts'
import type { Node, Subject } from './subjects.ts'

// Two gateways, in processes of their own as operators start them, with a network for each fault. Nodes and callers live in
// this process, which is none of tap's: tap watches every promise of its process, which takes longer than what is measured.

/** What came of one fault. */
export interface Finding {
  readonly name: string
  /** Which of the two nodes have it; or the partner, while the own node is away. */
  readonly who: 'one' | 'both' | 'partner'
  /** That were judged: once the fault was known, where one node has it. */
  readonly calls: number
  readonly right: number
  /** Answers that were not those to the question; of all calls. */
  readonly wrong: readonly string[]
  /** That had not been asked before, of these calls. */
  readonly questions: number
  /** Requests of these calls that reached a node. */
  readonly attempts: number
  /** What callers were told instead. */
  readonly told: readonly string[]
  /** What the gateway's log gave as the cause of failures. */
  readonly causes: readonly string[]
}

/** What became of a gateway. */
export interface End {
  /** That which had to do with faults that take memory, or that with all others. */
  readonly gateway: 'heavy' | 'light'
  /** MiB by which its resident set grew, at most, for a second or longer, once it was warm. */
  readonly resident: number
  /** MiB by which what it needs had grown in the end, when garbage had been collected. */
  readonly live: number
  readonly code: number | null
  /** Lines of its log that nothing a node does should bring about. */
  readonly errors: readonly unknown[]
}

/** In ms between two calls: 200 a second. */
const every = 5
/** Calls that are judged, once the fault is known; and half as many where nobody else is there. */
const judged = 110
/** Calls in a row that did not reach the faulty node: it has been found out. */
const spared = 20
/** So many must have been answered well, for it to be taken as it is. */
const fine = 100

/** A network of two nodes, and what is to be found out with it. */
interface Trial {
  readonly name: string
  readonly who: Finding['who']
  readonly network: string
  /** The first is faulty. */
  readonly nodes: readonly [Node, Node]
}

/** What the other node is. */
const others: Readonly<Record<Finding['who'], (start: Subject['start']) => Promise<Node>>> = {
  one: () => startFaultyNode(isRight),
  both: start => start(),
  partner: () => subjects['is not there']!.start(),
}

let networks = 0

const openTrial = async (name: string, who: Finding['who'], { start }: Subject): Promise<Trial> => ({
  name,
  who,
  network: `net-${(networks += 1)}`,
  nodes: await Promise.all([start(), others[who](start)]),
})

const hostOf = (network: string): string => `${network}.test`

/** As shipped, but less patient. */
const fileOf = ({ network, nodes: [{ url }, other], who }: Trial): object => ({
  ...networkFile(network, who === 'partner' ? [other.url] : [url, other.url], {
    upstream: { timeout: '1500ms', maxBytes: '64KiB', silence: '400ms' },
    ...(who === 'partner' && { failover: { upstreams: [{ name: 'node-1', url: other.url }], partner: { name: 'partner', url } } }),
  }),
  blockTime: `${blockTime}ms`,
  hosts: [hostOf(network)],
})

/** The first of two nodes is faulty: once that is known, callers must not notice. */
const tryOne = async ({ network, nodes: [faulty, healthy] }: Trial, callers: Callers) => {
  const load = callers.on(hostOf(network), 'eth_call')
  const attempts = () => faulty.asked('eth_call') + healthy.asked('eth_call')
  const early = await load.send(
    every,
    foundOut(() => faulty.asked('eth_call')),
  )
  const before = await ended(early)
  const counted = attempts()
  const late = await load.send(every, sent => sent.length === judged)
  const after = await ended(late)
  return { ...summary(late, after, before), attempts: attempts() - counted }
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

/** All that there is fails: the load on it must not double. */
const tryAtOnce = async ({ network, nodes, who }: Trial, callers: Callers) => {
  const method = who === 'partner' ? 'eth_getLogs' : 'eth_call'
  const sent = await callers.on(hostOf(network), method).send(every, sent => sent.length === judged / 2)
  return { ...summary(sent, await ended(sent)), attempts: nodes.reduce((sum, node) => sum + node.asked(method), 0) }
}

const ended = (sent: readonly Sent[]): Promise<readonly Outcome[]> => Promise.all(sent.map(({ done }) => done))

const summary = (sent: readonly Sent[], late: readonly Outcome[], before: readonly Outcome[] = []) => ({
  calls: late.length,
  questions: sent.filter(({ isRepeat }) => !isRepeat).length,
  right: late.filter(({ is }) => is === 'right').length,
  wrong: [...before, ...late].flatMap(({ is, why = '' }) => (is === 'wrong' ? [why] : [])),
  told: [...new Set(late.flatMap(({ why }) => why ?? []))],
})

const work = async (waiting: Trial[], { gateway, callers }: Running): Promise<void> => {
  for (let trial = waiting.shift(); trial !== undefined; trial = waiting.shift()) {
    const { name, who, network } = trial
    const found = await (who === 'one' ? tryOne : tryAtOnce)(trial, callers)
    const causes = new Set(gateway.log.flatMap(line => (line.network === network && typeof line.cause === 'string' ? line.cause : [])))
    process.send?.({ name, who, ...found, causes: [...causes] } satisfies Finding)
  }
}

interface Running {
  readonly gateway: Gateway
  readonly callers: Callers
}

/** Tries all with one gateway, so many at once; it is warm when those have been tried that come first. */
const tryAll = async (name: End['gateway'], trials: readonly Trial[], lanes: number, warmUps: readonly Trial[]): Promise<void> => {
  const deployment = createDeployment({
    // Small caches, and a small heap where the resident set is judged: what may be kept, or is not needed any more, is no growth.
    gateway: { log: 'warn', memory: '8MiB' },
    node: [...telling, ...(name === 'heavy' ? ['--max-semi-space-size=2', '--max-old-space-size=64'] : [])],
    networks: Object.fromEntries([...trials, ...warmUps].map(trial => [trial.network, fileOf(trial)])),
    env: { NODE_EXTRA_CA_CERTS: authority },
  })
  const keys = await Promise.all(
    ['alice', 'bob'].map(async name => {
      await deployment.addAccount(name, 'growth')
      return (await deployment.addKey(name)).key
    }),
  )
  const gateway = await deployment.start()
  const callers = openCallers(gateway.rpc, keys)
  await Promise.all(warmUps.map(trial => tryOne(trial, callers)))
  const live = await liveOf(gateway)
  const resident = () => (noMemory === false ? residentOf(gateway.pid) : 0)
  const warm = resident()
  let most = warm
  let second: readonly number[] = []
  // What it holds for a second: on a slow machine more of the longest answers, of 32 MiB, meet for a moment.
  const watch = setInterval(() => {
    second = [...second, resident()].slice(-50)
    if (second.length === 50) most = Math.max(most, Math.min(...second))
  }, 20)
  const waiting = [...trials]
  await Promise.all(Array.from({ length: lanes }, () => work(waiting, { gateway, callers })))
  clearInterval(watch)
  const left = await liveOf(gateway)
  await callers.stop()
  const code = await gateway.stop()
  const errors = gateway.log.filter(({ level, reason }) => Number(level) >= 50 && reason !== 'chain')
  process.send?.({ gateway: name, resident: mib(most - warm), live: mib(left - live), code, errors } satisfies End)
  await deployment.remove()
}

const mib = (bytes: number): number => Math.round(bytes / (1 << 20))

for (const make of Object.values(bombs)) make()
const warmUp = (fault: Fault): Promise<Trial> => openTrial('warms up', 'one', { start: () => startFaultyNode(fault) })
const right = await Promise.all([isRight, isRight, isRight, isRight, isRight].map(warmUp))
const dear = await Promise.all([isRight, faults['sends a brotli bomb']].map(warmUp))
const whoHas = (name: string, { both }: Subject): readonly Finding['who'][] => [
  'one',
  ...(both === false ? [] : (['both'] as const)),
  ...(ofPartners.some(each => each === name) ? (['partner'] as const) : []),
]
const trials = await Promise.all(
  Object.entries(subjects).flatMap(([name, subject]) => whoHas(name, subject).map(who => openTrial(name, who, subject))),
)
const isHeavy = ({ name }: Trial): boolean => /bomb|endlessly|hugely|without end/.test(name)
await Promise.all([
  // What takes most memory comes one after the other, in front of a gateway that has nothing else to do.
  tryAll('heavy', trials.filter(isHeavy), 1, dear),
  tryAll(
    'light',
    trials.filter(trial => !isHeavy(trial)),
    5,
    right,
  ),
])
await Promise.all([...trials, ...right, ...dear].flatMap(({ nodes }) => nodes.map(node => node.stop())))
process.disconnect()
