import { faults, harmless, isRight, lacking, swaps } from '../support/faults.ts'
import type { Fault } from '../support/faults.ts'
import { startFaultyNode } from '../support/faulty.ts'
import type { Load, Outcome, Sent } from '../faults/load.ts'

/** A network of two nodes, the first of which has one fault after the other, and is well in between. */
export interface Lane {
  readonly network: string
  readonly urls: readonly string[]
  /** The fault that the first node has now. */
  readonly fault: string
  /** How often it has had all of them. */
  readonly turns: number
  /** Sends calls until it is over. */
  run(load: Load, terms: Terms): Promise<void>
  stop(): Promise<void>
}

export interface Terms {
  /** In ms between two calls. */
  readonly every: number
  isOver(): boolean
  /** Waited for whenever the first node is well. */
  lull(): Promise<void>
  /** What came of a call. */
  tell(outcome: Outcome): void
}

const all: Readonly<Record<string, () => Fault>> = {
  ...Object.fromEntries(Object.entries<Fault>({ ...faults, ...lacking, ...harmless }).map(([name, fault]) => [name, () => fault])),
  'swaps answers': swaps,
}
const names = Object.keys(all)

/** How long a fault lasts, and how long the node is waited for after it at most: a limit may hold for a minute. In ms. */
const lasts = 2000
const spared = 10_000

/** `from` is the share of the faults that it begins behind, so that lanes do not all have the same. */
export const openLane = async (network: string, from: number): Promise<Lane> => {
  const [first, second] = await Promise.all([startFaultyNode(isRight), startFaultyNode(isRight)])
  const begin = Math.floor(from * names.length)
  let past = 0
  const name = () => names[(begin + past) % names.length] ?? 'hangs'
  return {
    network,
    urls: [first.url, second.url],
    get fault() {
      return name()
    },
    get turns() {
      return past / names.length
    },
    async run(load, { every, isOver, lull, tell }) {
      const send = async (isEnough: () => boolean) => {
        const sent: readonly Sent[] = await load.send(every, () => isOver() || isEnough())
        for (const { done } of sent) void done.then(tell)
        return sent
      }
      for (; !isOver(); past += 1) {
        await lull()
        first.does(all[name()]?.() ?? isRight)
        const end = performance.now() + lasts
        await send(() => performance.now() > end)
        first.does(isRight)
        const before = first.asked('eth_call')
        // Until callers' calls come to it again: its breaker has closed, its rest is over.
        await send(() => first.asked('eth_call') > before + 5 || performance.now() > end + spared)
      }
    },
    stop: async () => void (await Promise.all([first.stop(), second.stop()])),
  }
}
