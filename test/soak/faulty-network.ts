import { faults, toleratedBehaviors, respondCorrectly, missingHistoryFaults, swapResponses } from '../support/node-faults.ts'
import type { NodeFault } from '../support/node-faults.ts'
import { startFaultyNode } from '../support/faulty-node.ts'
import type { NetworkLoad, CallOutcome, SentCall } from '../faults/callers.ts'

/** A network of two nodes, the first of which has one fault after the other, and is well in between. */
export interface FaultyNetwork {
  readonly network: string
  readonly urls: readonly string[]
  /** The fault that the first node has now. */
  readonly currentFault: string
  /** How often it has had all of them. */
  readonly rotations: number
  /** Sends calls until it is over. */
  run(load: NetworkLoad, options: SoakOptions): Promise<void>
  stop(): Promise<void>
}

export interface SoakOptions {
  /** In ms between two calls. */
  readonly callIntervalMs: number
  isOver(): boolean
  /** Waited for whenever the first node is well. */
  waitWhilePaused(): Promise<void>
  /** What came of a call. */
  recordOutcome(outcome: CallOutcome): void
}

const faultFactories: Readonly<Record<string, () => NodeFault>> = {
  ...Object.fromEntries(
    Object.entries<NodeFault>({ ...faults, ...missingHistoryFaults, ...toleratedBehaviors }).map(([name, fault]) => [name, () => fault]),
  ),
  'swaps answers': swapResponses,
}
const faultNames = Object.keys(faultFactories)

/** How long a fault lasts, and how long the node is waited for after it at most: a limit may hold for a minute. In ms. */
const faultDurationMs = 2000
const maxRecoveryMs = 10_000

/** `from` is the share of the faults that it begins behind, so that lanes do not all have the same. */
export const startFaultyNetwork = async (network: string, rotationOffset: number): Promise<FaultyNetwork> => {
  const [first, second] = await Promise.all([startFaultyNode(respondCorrectly), startFaultyNode(respondCorrectly)])
  const firstFault = Math.floor(rotationOffset * faultNames.length)
  let faultsPassed = 0
  const name = () => faultNames[(firstFault + faultsPassed) % faultNames.length] ?? 'hangs'
  return {
    network,
    urls: [first.url, second.url],
    get currentFault() {
      return name()
    },
    get rotations() {
      return faultsPassed / faultNames.length
    },
    async run(load, { callIntervalMs: every, isOver, waitWhilePaused: lull, recordOutcome: tell }) {
      const send = async (isEnough: () => boolean) => {
        const sent: readonly SentCall[] = await load.send(every, () => isOver() || isEnough())
        for (const { done } of sent) void done.then(tell)
        return sent
      }
      for (; !isOver(); faultsPassed += 1) {
        await lull()
        first.setFault(faultFactories[name()]?.() ?? respondCorrectly)
        const end = performance.now() + faultDurationMs
        await send(() => performance.now() > end)
        first.setFault(respondCorrectly)
        const before = first.requestCount('eth_call')
        // Until callers' calls come to it again: its breaker has closed, its rest is over.
        await send(() => first.requestCount('eth_call') > before + 5 || performance.now() > end + maxRecoveryMs)
      }
    },
    stop: async () => void (await Promise.all([first.stop(), second.stop()])),
  }
}
