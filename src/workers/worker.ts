import type { Clock } from '../services/clock.ts'
import type { HeadsSource } from '../services/heads/index.ts'
import type { OpenMetrics } from '../services/metrics.ts'
import { LentHeads } from './lent-heads.ts'
import { newest, topicOf } from './messages.ts'
import type { FromPrimary, FromWorker } from './messages.ts'
import { Outbox } from './outbox.ts'

/** A worker's side of its crew. */
export interface Post {
  /** Heads that the primary follows. */
  readonly heads: HeadsSource
  /**
   * Says that it serves, answers for its metrics, and resolves when it shall stop, because the primary says so or is
   * gone.
   */
  serve(metrics: OpenMetrics): Promise<void>
}

/** Listens to the primary from the beginning. Signals are the primary's affair: a terminal sends them to all processes. */
export const joinCrew = (clock: Clock): Post => {
  const lent = new Map<string, LentHeads>()
  const outbox = new Outbox<FromWorker>({ send, topicOf, merge: newest })
  const say = (message: FromWorker): void => outbox.say(message)
  let wake = () => {}
  process.on('SIGINT', ignore).on('SIGTERM', ignore)
  process.on('message', (message: FromPrimary) => {
    if (!('network' in message)) return
    lent.get(message.network)?.hear(message)
    wake()
  })
  return {
    heads: {
      open(network, { chainId, blockTime, agents }) {
        const heads = new LentHeads({ network, chainId, blockTime, agents, clock, say })
        lent.set(network, heads)
        return heads
      },
      ready: () =>
        new Promise(resolve => {
          const settle = () => {
            timer.cancel()
            wake = () => {}
            resolve()
          }
          const timer = clock.after(patience, settle)
          wake = () => {
            if (![...lent.values()].some(heads => heads.isWaiting)) settle()
          }
          wake()
        }),
    },
    serve: metrics =>
      new Promise(resolve => {
        // The primary may be gone already: starting takes a while.
        if (!process.connected) return resolve()
        process.once('disconnect', () => resolve())
        process.on('message', (message: FromPrimary) => {
          if (message.kind === 'stop') resolve()
          else if (message.kind === 'metrics') say({ kind: 'metrics', id: message.id, metrics: metrics.families() })
        })
        say({ kind: 'ready' })
      }),
  }
}

/** How long the primary is waited for, in ms: without it heads are not known, which costs cache hits and nothing else. */
const patience = 1000

const ignore = (): void => undefined

const send = (message: FromWorker, sent: () => void): void => {
  // With a callback, what cannot be sent any more is no event that ends this process.
  if (process.connected) process.send?.(message, undefined, undefined, sent)
  else sent()
}
