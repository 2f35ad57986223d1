import { faults, toleratedBehaviors, missingHistoryFaults, swapResponses } from '../support/node-faults.ts'
import { respondCorrectly } from '../support/node-responses.ts'
import type { NodeFault } from '../support/node-responses.ts'
import { startFaultyNode } from '../support/faulty-node.ts'
import type { NetworkLoad, CallOutcome, SentCall } from '../faults/callers.ts'

/** A network of two nodes. The first has one fault after another, and is healthy in between. */
export interface FaultyNetwork {
  readonly network: string
  readonly urls: readonly string[]
  /** The present fault of the first node. */
  readonly currentFault: string
  /** Sends calls while the first node has its next fault, and until it gets calls again. */
  runFault(load: NetworkLoad, options: FaultOptions): Promise<void>
  stop(): Promise<void>
}

export interface FaultOptions {
  /** Between two calls. */
  readonly callIntervalMs: number
  isOver(): boolean
  recordOutcome(outcome: CallOutcome): void
}

const faultFactories: Readonly<Record<string, () => NodeFault>> = {
  ...Object.fromEntries(
    Object.entries<NodeFault>({ ...faults, ...missingHistoryFaults, ...toleratedBehaviors }).map(([name, fault]) => [name, () => fault]),
  ),
  'swaps responses': swapResponses,
}
const faultNames = Object.keys(faultFactories)

const faultDurationMs = 2000

/** How long the node may take to get calls again: a rate limit may last for a minute. */
const maxRecoveryMs = 10_000

/** With so many calls after a fault, the breaker is closed and the back-off is over. */
const minRecoveredCalls = 6

/** Blocks come fast: what a block leaves behind shows sooner. */
export const soakBlockTimeMs = 1000

/** `rotationOffset`, from 0 to 1, is where in the list of faults the node starts: networks have different faults at a time. */
export const startFaultyNetwork = async (network: string, rotationOffset: number): Promise<FaultyNetwork> => {
  const start = () => startFaultyNode(respondCorrectly, soakBlockTimeMs)
  const [first, second] = await Promise.all([start(), start()])
  let faultIndex = Math.floor(rotationOffset * faultNames.length)
  const name = () => faultNames[faultIndex % faultNames.length] ?? 'none'
  return {
    network,
    urls: [first.url, second.url],
    get currentFault() {
      return name()
    },
    async runFault(load, { callIntervalMs, isOver, recordOutcome }) {
      const send = async (isEnough: () => boolean) => {
        const sent: readonly SentCall[] = await load.send(callIntervalMs, () => isOver() || isEnough())
        for (const { done } of sent) void done.then(recordOutcome)
      }
      first.setFault(faultFactories[name()]?.() ?? respondCorrectly)
      const endMs = performance.now() + faultDurationMs
      await send(() => performance.now() > endMs)
      first.setFault(respondCorrectly)
      const callsBefore = first.requestCount('eth_call')
      const recoveredCalls = () => first.requestCount('eth_call') - callsBefore
      await send(() => recoveredCalls() >= minRecoveredCalls || performance.now() > endMs + maxRecoveryMs)
      faultIndex += 1
    },
    stop: async () => void (await Promise.all([first.stop(), second.stop()])),
  }
}
