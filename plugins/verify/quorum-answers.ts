import { createHash } from 'node:crypto'
import { activityOf } from '../../src/plugin/internal.ts'
import {
  Cancellation,
  blockSelectorOf,
  copyReply,
  isFailure,
  onAbort,
  refuse,
  releaseResult,
  toBuffer,
  withBlocks,
  withContext,
} from '../../src/plugin/plugin.ts'
import type { Failure, Json, Method, Reply, Request, Services, Target, Timer } from '../../src/plugin/plugin.ts'
import { comparableOf, isSameAnswer, withoutPlaces } from './comparable-answer.ts'
import type { ComparableAnswer } from './comparable-answer.ts'
import { disconnected, numberOf, votersOf } from './node-requests.ts'
import type { NextPlugin, VerifiedCall } from './verified-call.ts'
import type { Quorum } from './policies.ts'
import type { TrustedHeaders } from './trusted-headers.ts'
import type { RefuseWrong } from './wrong-results.ts'

interface QuorumAnswersOptions {
  readonly headers: TrustedHeaders
  readonly refuseWrong: RefuseWrong
  /** Longer results are compared by their bytes alone. */
  readonly maxBytes: number
  /** The proven answer; undefined where nothing is proven of the call. */
  prove(call: VerifiedCall, next: NextPlugin): Promise<Reply | undefined>
}

type QuorumServices = Pick<Services, 'heads' | 'log' | 'nodes' | 'clock'>

/** An answer of a node. */
interface Vote {
  readonly upstream: string
  readonly reply: Reply
  readonly answer: ComparableAnswer
}

interface VoteCount {
  /** What enough nodes say. */
  readonly agreed: Reply | undefined
  readonly votes: readonly Vote[]
}

/** A request about one block, which nodes with different heads answer alike. */
interface PinnedRequest {
  readonly request: Request
  /** The hash of the newest block, where the request was about that; it changes with a reorg. */
  readonly hash: string | undefined
}

/** An upstream that has not answered so long after another is late: a further one is asked, and so on. */
const lateMs = 1_000

/** Answers what several nodes say alike. They are asked at once; one that does not answer, or not in time, is replaced by another. */
export class QuorumAnswers {
  readonly #options: QuorumAnswersOptions
  readonly #services: QuorumServices

  constructor(options: QuorumAnswersOptions, services: QuorumServices) {
    this.#options = options
    this.#services = services
  }

  /** A difference is settled by a proof if there is one; else nobody is believed. */
  async answer(call: VerifiedCall, method: Method | undefined, quorum: Quorum, next: NextPlugin): Promise<Reply> {
    const pinned = await this.#pin(call, method, next)
    if ('error' in pinned) return pinned
    let { agreed, votes } = await this.#vote(call, method, pinned, quorum, next)
    if (agreed === undefined && !isAborted(call) && votes.length >= quorum.required && pinned.hash !== undefined) {
      const now = await this.#pin(call, method, next)
      if (!('error' in now) && now.hash !== pinned.hash) ({ agreed, votes } = await this.#vote(call, method, now, quorum, next))
    }
    if (isAborted(call)) return disconnected(call)
    if (agreed !== undefined) return isFailure(agreed) ? agreed : copyReply(agreed, { verified: 'quorum' })
    const proven = votes.length === 0 ? undefined : await this.#options.prove(call, next)
    if (proven !== undefined && !isFailure(proven)) return proven
    return this.#refuse(votes, quorum, call)
  }

  /** `latest` is the newest block that nodes agree on. A missing block is taken for `latest`. */
  async #pin(call: VerifiedCall, method: Method | undefined, next: NextPlugin): Promise<PinnedRequest | Failure> {
    const { request } = call.context
    const blocks = blockSelectorOf(method, request.params)
    if (method === undefined || blocks === undefined || 'hash' in blocks) return { request, hash: undefined }
    const { headers, refuseWrong } = this.#options
    const { heads } = this.#services
    const pinned: number[] = []
    let hash: string | undefined
    for (const block of blocks.from === blocks.to ? [blocks.to] : [blocks.from, blocks.to]) {
      const number = await numberOf(block, call, next, { heads, headers, refuseWrong })
      if (typeof number !== 'number') return number
      if (block === 'latest') {
        const header = await headers.latest(number, call)
        if (header === undefined) return headers.notTrusted
        hash = header.hash
        pinned.push(header.number)
      } else pinned.push(number)
    }
    const [from = 0, to = from] = pinned
    return { request: withBlocks(request, method, { from, to }), hash }
  }

  /** Resolves as soon as the answers to come change nothing; requests that are not needed any more are canceled, all of them when the caller leaves. */
  #vote(
    call: VerifiedCall,
    method: Method | undefined,
    { request }: PinnedRequest,
    { required, asked }: Quorum,
    next: NextPlugin,
  ): Promise<VoteCount> {
    const waiting = this.#targetsFor(call)
    const votes: Vote[] = []
    const cancellation = new Cancellation()
    const stopListening = onAbort(call.signal ?? call.origin.signal, () => cancellation.abort())
    let inFlight = 0
    let isDecided = false
    let timer: Timer | undefined
    return new Promise<VoteCount>((resolve, reject) => {
      const decide = () => {
        const best = largestGroup(votes)
        const isAgreed = best.length >= required
        if (!isAgreed && best.length + inFlight + (cancellation.aborted ? 0 : waiting.length) >= required) return
        isDecided = true
        timer?.cancel()
        const agreed = isAgreed ? agreedReplyOf(best, required) : undefined
        resolve({ agreed, votes: [...votes] })
        for (const { reply } of votes) if (reply !== agreed) releaseResult(reply)
        votes.length = 0
        cancellation.abort()
      }
      const ask = (): void => {
        const target = cancellation.aborted ? undefined : waiting.shift()
        if (target === undefined) return
        inFlight += 1
        next(withContext(call, { target, request }, cancellation)).then(reply => {
          inFlight -= 1
          if (isDecided) return releaseResult(reply)
          if (isAnswer(reply)) {
            if (target === call.context.target) activityOf(target).recordAnswered(call, this.#services.clock.monotonic())
            votes.push({ upstream: target.name, reply, answer: this.#answerOf(reply, method, votes) })
          } else ask()
          decide()
          if (!isDecided && votes.length > 0) timer ??= this.#services.clock.every(lateMs, ask)
        }, reject)
      }
      for (let i = 0; i < asked; i++) ask()
      decide()
    }).finally(() => {
      stopListening()
      timer?.cancel()
    })
  }

  /** The node of the call first, and those that get no calls now last. */
  #targetsFor(call: VerifiedCall): Target[] {
    const { heads, nodes } = this.#services
    const { target } = call.context
    const others = votersOf(call, heads).filter(({ name }) => name !== target.name)
    const isUsable = ({ name }: Target): boolean => nodes.statusOf(name)?.usable !== false
    return [target, ...others.filter(isUsable), ...others.filter(each => !isUsable(each))]
  }

  /** Of an error, what it means: nodes word it each in their own way. */
  #answerOf(reply: Reply, method: Method | undefined, votes: readonly Vote[]): ComparableAnswer {
    if (isFailure(reply)) {
      const { category, error } = reply
      const data = typeof error.data === 'string' ? error.data.toLowerCase() : ''
      return { common: `error ${category ?? error.code} ${data}`, added: noneAdded }
    }
    const bytes = toBuffer(reply.result)
    const same = votes.find(vote => !isFailure(vote.reply) && toBuffer(vote.reply.result).equals(bytes))
    if (same !== undefined) return same.answer
    if (bytes.length > this.#options.maxBytes) return { common: createHash('sha256').update(bytes).digest('base64'), added: noneAdded }
    const value: Json = JSON.parse(bytes.toString())
    return comparableOf(value, method?.result)
  }

  #refuse(votes: readonly Vote[], { required }: Quorum, { context: { request }, origin: { requestId } }: VerifiedCall): Failure {
    const said = Object.fromEntries(votes.map(({ upstream, answer }) => [upstream, textOf(answer).slice(0, maxShownChars)]))
    const cause = votes.length < required ? 'too few upstreams answered for a quorum' : 'upstreams do not agree on a result'
    this.#services.log.warn({ requestId, method: request.method, said, required }, cause)
    return refuse('unavailable', { source: 'gateway', fault: 'gateway', cause, retryAfter: 1 })
  }
}

const maxShownChars = 200

const isAborted = ({ signal, origin }: VerifiedCall): boolean => (signal ?? origin.signal).aborted

const noneAdded: ReadonlyMap<string, string> = new Map()

const textOf = ({ common, added }: ComparableAnswer): string => (added.size === 0 ? common : `${common} ${JSON.stringify([...added])}`)

/** The votes that say the same, each as all others of them, of which there are the most. */
const largestGroup = (votes: readonly Vote[]): readonly Vote[] => {
  const groups = votes.map(first =>
    votes.reduce(
      (group: readonly Vote[], vote) =>
        vote !== first && group.every(({ answer }) => isSameAnswer(answer, vote.answer)) ? [...group, vote] : group,
      [first],
    ),
  )
  return groups.toSorted((one, other) => other.length - one.length)[0] ?? []
}

/** Of what clients and networks add, the answer has what so many nodes say alike. */
const agreedReplyOf = (group: readonly Vote[], required: number): Reply => {
  const isAgreed = (place: string): boolean => group.filter(({ answer }) => answer.added.has(place)).length >= required
  const agreedCountOf = ({ answer }: Vote): number => [...answer.added.keys()].filter(isAgreed).length
  const { reply, answer } = group.toSorted((one, other) => agreedCountOf(other) - agreedCountOf(one))[0]!
  const alone = new Set([...answer.added.keys()].filter(place => !isAgreed(place)))
  if (isFailure(reply) || alone.size === 0) return reply
  const value: Json = JSON.parse(toBuffer(reply.result).toString())
  return copyReply(reply, { result: Buffer.from(JSON.stringify(withoutPlaces(value, alone))) })
}

/** A result, or an error that another node may give too. */
const isAnswer = (reply: Reply): boolean =>
  isFailure(reply) ? reply.fault === 'caller' && reply.retryElsewhere !== true : reply.unexpectedType !== true
