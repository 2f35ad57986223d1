import type { Clock } from '../services/clock.ts'
import type { HeadsSource } from '../services/chain-heads/index.ts'
import type { MetricsRegistry } from '../services/metrics.ts'
import { WorkerHeads } from './worker-heads.ts'
import { coalesceMessages, topicOf } from './messages.ts'
import type { PrimaryMessage, WorkerMessage } from './messages.ts'
import { Channel } from './channel.ts'

/** A worker's side of its crew. */
export interface PrimaryConnection {
  /** Heads that the primary follows. */
  readonly heads: HeadsSource
  /**
   * Says that it serves, answers for its metrics, and resolves when it shall stop, because the primary says so or is
   * gone.
   */
  serveUntilStopped(metrics: MetricsRegistry): Promise<void>
}

/** Listens to the primary from the beginning. Signals are the primary's affair: a terminal sends them to all processes. */
export const connectToPrimary = (clock: Clock): PrimaryConnection => {
  const headsByNetwork = new Map<string, WorkerHeads>()
  const channel = new Channel<WorkerMessage>({ send: sendToPrimary, topicOf, coalesce: coalesceMessages })
  const sendMessage = (message: WorkerMessage): void => channel.send(message)
  let onSnapshot = () => {}
  process.on('SIGINT', ignoreSignal).on('SIGTERM', ignoreSignal)
  process.on('message', (message: PrimaryMessage) => {
    if (!('network' in message)) return
    headsByNetwork.get(message.network)?.handleMessage(message)
    onSnapshot()
  })
  return {
    heads: {
      open(network, { chainId, blockTime, upstreamClient }) {
        const heads = new WorkerHeads({ network, chainId, blockTime, upstreamClient, clock, send: sendMessage })
        headsByNetwork.set(network, heads)
        return heads
      },
      ready: () =>
        new Promise(resolve => {
          const settle = () => {
            timer.cancel()
            onSnapshot = () => {}
            resolve()
          }
          const timer = clock.after(snapshotTimeoutMs, settle)
          onSnapshot = () => {
            if (![...headsByNetwork.values()].some(heads => heads.isAwaitingSnapshot)) settle()
          }
          onSnapshot()
        }),
    },
    serveUntilStopped: metrics =>
      new Promise(resolve => {
        // The primary may be gone already: starting takes a while.
        if (!process.connected) return resolve()
        process.once('disconnect', () => resolve())
        process.on('message', (message: PrimaryMessage) => {
          if (message.kind === 'stop') resolve()
          else if (message.kind === 'metrics') sendMessage({ kind: 'metrics', id: message.id, metrics: metrics.families() })
        })
        sendMessage({ kind: 'ready' })
      }),
  }
}

/** How long the primary is waited for, in ms: without it heads are not known, which costs cache hits and nothing else. */
const snapshotTimeoutMs = 1000

const ignoreSignal = (): void => undefined

const sendToPrimary = (message: WorkerMessage, sent: () => void): void => {
  // With a callback, what cannot be sent any more is no event that ends this process.
  if (process.connected) process.send?.(message, undefined, undefined, sent)
  else sent()
}
