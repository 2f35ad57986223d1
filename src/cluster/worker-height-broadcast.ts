import type { HeightBroadcast, HeightListener } from '../services/chain-heads/index.ts'
import type { Clock } from '../services/clock.ts'
import { withTimeoutOr } from '../util/async.ts'
import type { MaybePromise } from '../util/async.ts'
import { getOrCreate } from '../util/memoize.ts'
import { Acknowledgments } from './acknowledgments.ts'
import { PendingReplies } from './channel.ts'
import { primaryTimeoutMs } from './worker-messages.ts'
import type { NetworkChannel, NetworkMessage, PrimaryMessage, WorkerChannel, WorkerMessage } from './worker-messages.ts'

/** The reported height of one network, for the workers of this gateway: a caller is given it when every worker has it. */
export class WorkerHeightBroadcast implements HeightBroadcast {
  readonly #network: string
  readonly #acknowledgments: Acknowledgments
  #onHeight: HeightListener = height => height
  #height = 0
  #sharedHeight = 0

  constructor(network: string, clock: Clock) {
    this.#network = network
    this.#acknowledgments = new Acknowledgments(clock)
  }

  get workers(): readonly WorkerChannel[] {
    return this.#acknowledgments.workers
  }

  /** The greatest height that callers may have been given. */
  get height(): number {
    return this.#height
  }

  raise(height: number): Promise<void> | undefined {
    this.#height = height
    this.#broadcast({ kind: 'height', network: this.#network, height })
    return this.#acknowledgments.whenAcknowledged(height).then(() => {
      if (height > this.#sharedHeight && height <= this.#height) this.#publishSharedHeight(height)
    })
  }

  lower(height: number): void {
    this.#height = height
    this.#broadcast({ kind: 'height', network: this.#network, height })
    this.#publishSharedHeight(height)
  }

  subscribe(listener: HeightListener): () => void {
    this.#onHeight = listener
    return () => {
      if (this.#onHeight === listener) this.#onHeight = height => height
    }
  }

  addWorker(worker: WorkerChannel): void {
    this.#acknowledgments.addWorker(worker)
    worker.send({ kind: 'height', network: this.#network, height: this.#height })
    worker.send({ kind: 'sharedHeight', network: this.#network, height: this.#sharedHeight })
  }

  removeWorker(worker: WorkerChannel): void {
    this.#acknowledgments.removeWorker(worker)
  }

  handleMessage(worker: WorkerChannel, message: WorkerMessage): void {
    if (message.kind === 'reportHeight') void this.#replyHeight(worker, message)
    else if (message.kind === 'sync') this.#acknowledgments.setResponsive(worker)
    else if (message.kind === 'heightAck') this.#acknowledgments.record(worker, message.height)
  }

  async #replyHeight(worker: WorkerChannel, { height, ...reports }: Extract<WorkerMessage, { kind: 'reportHeight' }>): Promise<void> {
    worker.send({ ...reports, kind: 'heightReported', height: await this.#onHeight(height, reports.upstream) })
  }

  #publishSharedHeight(height: number): void {
    this.#sharedHeight = height
    this.#broadcast({ kind: 'sharedHeight', network: this.#network, height })
  }

  #broadcast(message: PrimaryMessage): void {
    for (const worker of this.workers) worker.send(message)
  }
}

/** The height that every worker has, in one of them: its callers are given no greater one. */
export class SharedHeight {
  readonly #channel: NetworkChannel
  /** By upstream: the channel makes one report of several of an upstream. */
  readonly #replies = new Map<string, PendingReplies<number>>()
  /** Requests in flight, by height and upstream. */
  readonly #requests = new Map<string, Promise<number>>()
  readonly #listeners = new Set<() => void>()
  #height = 0

  constructor(channel: NetworkChannel) {
    this.#channel = channel
  }

  /**
   * An upstream has answered this height, which the primary does not know yet, to a caller. Resolves with the height that the caller may be given;
   * with `fallback()` when the primary does not answer. Calls with the same height from the same upstream share one request.
   */
  request(upstream: string, height: number, fallback: () => number): Promise<number> {
    const { network, clock, send } = this.#channel
    const key = `${height} ${upstream}`
    const replies = getOrCreate(this.#replies, upstream, () => new PendingReplies<number>(clock))
    return getOrCreate(this.#requests, key, () =>
      replies
        .request(primaryTimeoutMs, id => send({ kind: 'reportHeight', firstId: id, id, network, upstream, height }), fallback)
        .finally(() => this.#requests.delete(key)),
    )
  }

  /** The same height, when every worker has it, or after a time. */
  whenShared(height: number): MaybePromise<number> {
    return height <= this.#height ? height : this.#waitFor(height)
  }

  /** From the primary. */
  handleMessage(message: NetworkMessage): void {
    if (message.kind === 'heightReported') this.#replies.get(message.upstream)?.resolveThrough(message.id, message.height, message.firstId)
    if (message.kind !== 'sharedHeight') return
    this.#height = message.height
    for (const listener of this.#listeners) listener()
  }

  async #waitFor(height: number): Promise<number> {
    let listener = () => {}
    const shared = new Promise<void>(resolve => {
      listener = () => {
        if (this.#height >= height) resolve()
      }
      this.#listeners.add(listener)
    })
    await withTimeoutOr(this.#channel.clock, primaryTimeoutMs, shared, () => undefined)
    this.#listeners.delete(listener)
    return height
  }
}
