import { maxRecentBlocks, mergeChanges } from '../services/chain-heads/index.ts'
import type { Clock } from '../services/clock.ts'
import { withTimeoutOr } from '../util/async.ts'
import type { WorkerFeedStep, PrimaryMessage, WorkerMessage } from './worker-messages.ts'

/** Blocks, and events that stand for themselves, that wait for a worker, at most: with more its feed ends. */
const maxWaitingBlocks = 512
const maxWaitingEvents = 10_000

/** Transmits one message. `onSent` is to be called when the message has left this process, or never will. */
type Transmit<M> = (message: M, onSent: () => void) => void

/**
 * Sends messages to a process that may not read them: one that is stopped, or busy for long. While its pipe is full, messages
 * wait here, one for each topic: the memory that such a process costs is bounded, and it reads the newest state afterwards.
 */
export class Channel<M extends WorkerMessage | PrimaryMessage> {
  readonly #transmit: Transmit<M>
  readonly #pending = new Map<string, M>()
  #inTransitCount = 0

  constructor(transmit: Transmit<M>) {
    this.#transmit = transmit
  }

  send(message: M): void {
    if (this.#inTransitCount === 0) return this.#sendNow(message)
    const topic = topicOf(message)
    const older = this.#pending.get(topic)
    // It goes to the end, because it may depend on messages of other topics.
    this.#pending.delete(topic)
    this.#pending.set(topic, older === undefined ? message : coalesce(older, message))
  }

  #sendNow(message: M): void {
    this.#inTransitCount += 1
    this.#transmit(message, () => {
      this.#inTransitCount -= 1
      if (this.#inTransitCount === 0) this.#flush()
    })
  }

  #flush(): void {
    const messages = [...this.#pending.values()]
    this.#pending.clear()
    for (const message of messages) this.#sendNow(message)
  }
}

/** Of the messages of one topic only the newest has to arrive, coalesced with the older ones. */
const topicOf = (message: WorkerMessage | PrimaryMessage): string => {
  switch (message.kind) {
    case 'report':
      return `${message.kind} ${message.network} ${message.subject} ${message.upstream}`
    case 'reported':
      return `${message.kind} ${message.network} ${message.subject} ${message.upstream} ${message.id}`
    case 'startFeed':
    case 'stopFeed':
      return `startFeed ${message.network} ${message.feed}`
    case 'feed':
      return `${message.kind} ${message.network} ${message.feed}`
    // A worker asks for a bucket again when the request before has been answered, or is no longer waited for.
    case 'takeTokens':
      return `${message.kind} ${message.request.bucket}`
    case 'tokens':
    case 'endReload':
      return `${message.kind} ${message.id}`
    case 'track':
    case 'untrack':
      return `track ${message.network}`
    default:
      return 'network' in message ? `${message.kind} ${message.network}` : message.kind
  }
}

/** The newer of two messages of one topic; of two reports the higher block. A snapshot gets the changes of the recent blocks from both. */
const coalesce = <M extends WorkerMessage | PrimaryMessage>(older: M, newer: M): M => {
  if (older.kind === 'feed' && newer.kind === 'feed')
    return older.run === newer.run ? { ...newer, steps: joinSteps(older.steps, newer.steps) } : newer
  if (older.kind === 'report' && newer.kind === 'report')
    return { ...newer, firstId: older.firstId, block: Math.max(older.block, newer.block) }
  if (older.kind !== 'snapshot' || newer.kind !== 'snapshot' || older.recentBlocks === undefined) return newer
  if (newer.recentBlocks === undefined) return { ...newer, recentBlocks: older.recentBlocks }
  return { ...newer, recentBlocks: mergeChanges(older.recentBlocks, newer.recentBlocks, maxRecentBlocks) }
}

/** All steps of both, in order. When the feed has ended, or too much waits, no updates: the end, and the answer to the last start. */
const joinSteps = (older: readonly WorkerFeedStep[], newer: readonly WorkerFeedStep[]): readonly WorkerFeedStep[] => {
  const steps = [...older, ...newer]
  const blockCount = sumOf(steps, step => (isObject(step) && 'added' in step ? step.removed.length + step.added.length : 0))
  const eventCount = sumOf(steps, step => (isObject(step) && 'events' in step ? step.events.length : 0))
  if (blockCount <= maxWaitingBlocks && eventCount <= maxWaitingEvents && !steps.includes('ended')) return steps
  return ['ended', ...steps.filter(step => isObject(step) && 'isStarted' in step).slice(-1)]
}

const isObject = (step: WorkerFeedStep): step is Exclude<WorkerFeedStep, 'ended'> => step !== 'ended'

const sumOf = (steps: readonly WorkerFeedStep[], countOf: (step: WorkerFeedStep) => number): number =>
  steps.reduce((sum, step) => sum + countOf(step), 0)

/** Requests of one kind to the primary that wait for their replies. */
export class PendingReplies<Reply> {
  readonly #clock: Clock
  /** By the id of the request. */
  readonly #resolvers = new Map<number, (reply: Reply) => void>()
  #lastId = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * `send` gets the id of the request. Resolves with the reply; with `fallback()` when none comes in time. `onReply` is called before the next message
   * is handled; the promise resolves later.
   */
  request<Fallback>(
    timeoutMs: number,
    send: (id: number) => void,
    fallback: () => Fallback,
    onReply?: (reply: Reply) => void,
  ): Promise<Reply | Fallback> {
    const id = (this.#lastId += 1)
    const reply = new Promise<Reply>(resolve =>
      this.#resolvers.set(id, received => {
        this.#resolvers.delete(id)
        onReply?.(received)
        resolve(received)
      }),
    )
    send(id)
    return withTimeoutOr(this.#clock, timeoutMs, reply, () => {
      this.#resolvers.delete(id)
      return fallback()
    })
  }

  resolve(id: number, reply: Reply): void {
    this.#resolvers.get(id)?.(reply)
  }

  /** One reply to this request and to those before it, from the first one on. */
  resolveThrough(lastId: number, reply: Reply, firstId = 0): void {
    for (const [id, resolve] of this.#resolvers) if (id >= firstId && id <= lastId) resolve(reply)
  }
}
