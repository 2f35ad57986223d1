import { Channel } from '../../src/util/channel.ts'
import { toPrimaryRules, toWorkerRules } from '../../src/cluster/worker-messages.ts'
import type { ToPrimary, ToWorker } from '../../src/cluster/worker-messages.ts'
import type { Clock } from '../../src/services/clock.ts'

/** One direction of a channel: decides when a message has left its process, and when it arrives. */
type Pipe = (deliver: () => void, onSent: () => void) => void

const directPipe: Pipe = (deliver, onSent) => {
  onSent()
  deliver()
}

/** Both ends of the channel between a primary and a worker. Like a real pipe, it delivers copies. */
export const connectWorker = (clock: Clock, { up = directPipe, down = directPipe }: { readonly up?: Pipe; readonly down?: Pipe } = {}) => {
  const copyOf = <Value>(message: Value): Value => JSON.parse(JSON.stringify(message))
  const worker: Channel<ToWorker, ToPrimary> = new Channel<ToWorker, ToPrimary>({
    ...{ clock, rules: toWorkerRules },
    transmit(message, onSent) {
      const copy = copyOf(message)
      down(() => primary.receive(copy), onSent)
    },
  })
  const primary: Channel<ToPrimary, ToWorker> = new Channel<ToPrimary, ToWorker>({
    ...{ clock, rules: toPrimaryRules },
    transmit(message, onSent) {
      const copy = copyOf(message)
      up(() => worker.receive(copy), onSent)
    },
  })
  return { worker, primary }
}
