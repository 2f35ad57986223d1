import type { Worker } from 'node:cluster'

/** A worker gets one connection at a time for each port. More without an acknowledgment mean that Node names its messages anew. */
const maxUnacknowledged = 16

/**
 * Node's primary accepts all connections. It hands each to a worker, and loses it when the worker dies before it has
 * acknowledged it: the caller would wait for ever. Here such a connection goes to another worker (nobody has read from it),
 * or is closed where there is none. The names are those of Node's own messages (20, 22, 24 and 26); where they differ, connections
 * are handed over as Node does it. The `readyWorkers` listen already.
 */
export const reassignConnections = (worker: Worker, readyWorkers: () => Iterable<Worker>): void => {
  const { process: child } = worker
  const { send } = child
  /** By the number of the message that handed it over. */
  const unacknowledged = new Set<number>()
  let hasExited = false
  child.send = (...args: unknown[]): boolean => {
    const message = args[0] as InternalMessage
    if (hasExited && message.act === 'disconnect') return false
    if (message.act === 'newconn') unacknowledged.add(message.seq)
    if (unacknowledged.size > maxUnacknowledged) {
      child.send = send
      unacknowledged.clear()
    }
    return Reflect.apply(send, child, args) as boolean
  }
  child.on('internalMessage', ({ ack }: AckMessage) => void (ack !== undefined && unacknowledged.delete(ack)))
  // By then all messages of the worker have been handled, but `disconnect` may not have come: the pipe still counts as connected.
  child.once('exit', () => {
    hasExited = true
    // Node hands the worker nothing from here on: a connection from the queue would be written into the pipe, and be lost.
    worker.disconnect()
    const hasOtherWorker = [...readyWorkers()].some(other => other.isConnected() && !other.isDead())
    for (const ack of [...unacknowledged]) child.emit('internalMessage', { cmd: 'NODE_CLUSTER', ack, accepted: !hasOtherWorker })
  })
}

/** To a worker: a connection, or the end of all connections. */
interface InternalMessage {
  readonly act?: 'newconn' | 'disconnect'
  readonly seq: number
}

/** From a worker. Where `accepted` is true, the primary closes its own end of the connection. */
interface AckMessage {
  readonly ack?: number
}
