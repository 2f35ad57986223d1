import type { Request, Target } from '../../call.ts'
import { refuse } from '../../reply.ts'
import type { Failure, Meaning, Reply } from '../../reply.ts'
import { NodeAnswer, writeRequest } from '../../wire/node.ts'
import type { Reading } from '../../wire/node.ts'
import type { Clock } from '../clock.ts'
import { causeOf } from './cause.ts'
import type { Gate } from './gate.ts'
import { judgeHead, unusable } from './head.ts'
import type { Inflater } from './head.ts'
import { Inflation } from './inflation.ts'
import type { Headers, Hearer, Lines, Trip } from './lines.ts'
import type { Place } from './place.ts'
import { noRoom } from './room.ts'
import type { Room } from './room.ts'
import type { Watch } from './watch.ts'

/** What one request is sent and its answer read with. */
export interface Means {
  /** Of the request. */
  readonly id: number
  readonly request: Request
  readonly target: Target
  /** Most bytes, inflated. */
  readonly maxBytes: number
  readonly resend: boolean
  readonly clock: Clock
  readonly room: Room
  readonly inflaters: Readonly<Record<Inflater['kind'], Gate>>
  readonly watch: Watch
  /** Called once, when it is over. */
  onEnd(): void
}

/** Sends a request and reads the answer to its end, or until it cannot become one. Rejects only because of a bug. */
export const exchange = (lines: Lines, place: Place, means: Means): Promise<Reply> =>
  new Promise((resolve, reject) => new Exchange(means, resolve, reject).start(lines, place))

/** Hears of the answer as it comes: without a stream, and without any promise but the one it settles. */
class Exchange implements Hearer {
  readonly #means: Means
  readonly #resolve: (reply: Reply) => void
  readonly #reject: (bug: unknown) => void
  #trip: Trip | undefined
  #answer: NodeAnswer | undefined
  #inflation: Inflation | undefined
  /** Where the inflation has its place. */
  #gate: Gate | undefined
  /** What the answer comes to when it is none. */
  #otherwise: Failure | undefined
  #isRefused = false
  #held = 0
  /** Bytes since others had their turn. */
  #turn = 0
  #isOver = false

  constructor(means: Means, resolve: (reply: Reply) => void, reject: (bug: unknown) => void) {
    this.#means = means
    this.#resolve = resolve
    this.#reject = reject
  }

  start(lines: Lines, place: Place): void {
    const { id, request, resend, watch } = this.#means
    this.#listen()
    if (this.#isOver) return
    try {
      watch.listen()
      this.#trip = lines.post(place, writeRequest(id, request), this, resend)
    } catch (bug) {
      this.fault(bug)
    }
  }

  head(status: number, headers: Headers): void {
    const { target, clock, maxBytes } = this.#means
    const judged = judgeHead(status, headers, { target, clock })
    if (judged.trouble !== undefined) return this.#finish(judged.trouble)
    if (judged.length !== undefined && judged.length > maxBytes) return this.#finish(tooLarge(target))
    this.#otherwise = judged.otherwise
    this.#isRefused = judged.isRefused === true
    this.#answer = new NodeAnswer(judged.length)
    if (judged.inflater !== undefined && this.#trip !== undefined) void this.#inflate(judged.inflater, this.#trip)
  }

  chunk(bytes: Buffer): void {
    this.#means.watch.hear(bytes.length)
    if (this.#inflation !== undefined) return this.#inflation.write(bytes)
    this.#take(bytes)
    this.#yield(bytes.length)
  }

  end(): void {
    if (this.#inflation === undefined) this.#complete()
    else this.#inflation.end()
  }

  fault(error: unknown): void {
    if (this.#isOver) return
    const cause = causeOf(error)
    // A broken exchange is the upstream's fault; a bug of ours is not, and goes on as what it is.
    if (cause !== undefined) return this.#finish(this.#otherwise ?? unusable(this.#means.target, cause))
    this.#clear()
    this.#reject(error)
  }

  #take(bytes: Buffer): void {
    const { target, maxBytes, room } = this.#means
    const answer = this.#answer
    if (answer === undefined || this.#isOver) return
    if (answer.length + bytes.length > maxBytes) return this.#finish(tooLarge(target))
    if (!room.take(bytes.length)) return this.#finish(noRoom({ upstream: target.name }))
    this.#held += bytes.length
    if (!answer.push(bytes)) this.#complete()
  }

  /** Others get their turn: what has arrived is read 2 MB at once, which held up the event loop for 5 ms and more. */
  #yield(length: number): void {
    this.#turn += length
    if (this.#turn < perTurn || this.#isOver) return
    this.#turn = 0
    this.#trip?.pause()
    setImmediate(() => this.#trip?.resume())
  }

  #complete(): void {
    if (this.#isOver) return
    const reading = this.#answer?.read(this.#means.id)
    this.#finish(reading === undefined ? unusable(this.#means.target, 'no head') : this.#replyOf(reading))
  }

  #replyOf(reading: Reading): Reply {
    const { target } = this.#means
    if (this.#isRefused && this.#otherwise !== undefined)
      return { ...this.#otherwise, ...(reading.kind === 'error' && { said: reading.error }) }
    switch (reading.kind) {
      case 'error':
        return {
          source: target.source,
          upstream: target.name,
          kind: 'node',
          error: reading.error,
          fault: 'caller',
          status: 200,
        }
      case 'garbage':
        return this.#otherwise ?? unusable(target, reading.reason)
      case 'result':
        return reading.partial !== undefined
          ? cutShort(target, reading.partial)
          : { result: reading.text, count: reading.count, source: target.source, upstream: target.name }
    }
  }

  /** So many at once. No byte comes until there is a place. */
  async #inflate({ kind, make }: Inflater, trip: Trip): Promise<void> {
    const {
      inflaters: { [kind]: gate },
      watch,
      target,
    } = this.#means
    trip.pause()
    const hasPlace = await gate.enter(watch)
    this.#listen()
    if (!hasPlace) return this.#finish({ ...unusable(target, 'too many compressed answers at once'), elsewhere: true, retryAfter: 1 })
    if (this.#isOver) return gate.leave()
    this.#inflation = new Inflation(make(), trip, {
      chunk: bytes => this.#take(bytes),
      end: () => this.#complete(),
      fault: error => this.fault(error),
    })
    this.#gate = gate
    trip.resume()
  }

  #listen(): void {
    const { watch, target } = this.#means
    const end = () => this.#finish(watch.explain(target) ?? unusable(target, 'it was ended'))
    watch.whenOver = end
    if (watch.isOver) end()
  }

  #finish(reply: Reply): void {
    if (this.#isOver) return
    this.#clear()
    this.#resolve(reply)
  }

  #clear(): void {
    this.#isOver = true
    this.#means.onEnd()
    this.#trip?.abort()
    this.#means.room.give(this.#held)
    this.#inflation?.stop()
    this.#gate?.leave()
  }
}

/** Bytes of one answer that are read in one turn of the event loop: 1.5 ms. */
const perTurn = 786_432

const tooLarge = ({ source, name: upstream }: Target): Failure => refuse('tooLarge', { source, upstream, elsewhere: true })

/** A part that looks whole: Nethermind, streaming a result, says only behind it that the query was too much (`_streamStatus`). */
const cutShort = (target: Target, status: string): Failure => {
  const meaning = ends.get(status)
  return { ...unusable(target, `the result ends early (${status})`), ...(meaning !== undefined && { meaning }) }
}

const ends: ReadonlyMap<string, Meaning> = new Map([
  ['truncated', 'tooMany'],
  ['timeout', 'timeout'],
])
