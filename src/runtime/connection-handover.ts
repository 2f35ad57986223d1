import type { Worker } from 'node:cluster'

/**
 * Node's primary accepts all connections. It gives each to a worker and keeps it until the worker has said that it came;
 * of one that dies before that it hears no more, and the caller would wait for ever. Here such a connection goes to
 * another worker (nobody has read of it), or is closed where there is none. The names are those that Node gives its own
 * messages (20, 22 and 24).
 */
export const reassignConnections = (worker: Worker, hasOtherWorkers: () => boolean): void => {
  const { process: child } = worker
  const { send } = child
  /** By the number of the message that gave it. */
  const unacknowledged = new Set<number>()
  child.send = (...args: unknown[]): boolean => {
    const message = args[0] as NewConnectionMessage
    if (message.act === 'newconn') unacknowledged.add(message.seq)
    return Reflect.apply(send, child, args) as boolean
  }
  child.on('internalMessage', ({ ack }: AckMessage) => void (ack !== undefined && unacknowledged.delete(ack)))
  // By then all that the worker has said has been heard, and Node gives it nothing any more. `disconnect` does not come
  // while a connection is under way.
  child.once('exit', () => {
    for (const ack of [...unacknowledged]) child.emit('internalMessage', { cmd: 'NODE_CLUSTER', ack, accepted: !hasOtherWorkers() })
  })
}

/** What goes to a worker, when it is a connection. */
interface NewConnectionMessage {
  readonly act?: 'newconn'
  readonly seq: number
}

/** What comes from it, when it answers. Whoever is told `accepted` closes its own end. */
interface AckMessage {
  readonly ack?: number
}
