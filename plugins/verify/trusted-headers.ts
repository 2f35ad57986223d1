import { LRUCache } from 'lru-cache'
import { Cancellation, isFailure, toBuffer, toHexQuantity } from '../../src/plugin/plugin.ts'
import type { Failure, Json, Request, Services, Target } from '../../src/plugin/plugin.ts'
import type { BeaconHeaders, Found } from './beacon/beacon-headers.ts'
import { toTrustedHeader } from './block-header.ts'
import type { TrustedHeader } from './block-header.ts'
import { isSameHex } from './hex.ts'
import { notAgreed, notSigned, voterCountOf, votersOf } from './node-requests.ts'
import type { FinalBlock } from './node-requests.ts'
import type { VerifiedCall } from './verified-call.ts'
import { agreedValue, requiredVotesOf } from './votes.ts'

interface CachedHeader {
  readonly header: Promise<TrustedHeader | undefined>
  /** Once nodes have agreed on it. */
  found?: TrustedHeader
  readonly isFinal: boolean
  /** Of finality for a final block, which may be reverted, else of the head: another one may be another chain. */
  readonly version: number
}

/** A header takes 1 KB. */
const maxHeaders = 1024
const requestTimeoutMs = 2000
/** As in failover: with blocks of up to 2 s, most nodes have the next one within it. */
const maxCatchUpMs = 4_000
const maxBlocksBack = 2
/** Blocks below the newest one of a node. */
const maxPolledDepth = 8
const maxHeaderBytes = 8_388_608

interface TrustedHeadersOptions {
  readonly agree: number | undefined
  /** The header with that hash, if it is known. */
  knownHeader(hash: string): TrustedHeader | undefined
  /** Where it is given, the beacon chain says which headers are trusted, in place of nodes. */
  readonly beacon?: BeaconTrust | undefined
}

interface BeaconTrust {
  readonly headers: Pick<BeaconHeaders, 'latest' | 'at' | 'forget' | 'finalNumber'>
  /** Of blocks about which the beacon chain says nothing, the headers that nodes agree on are enough. */
  readonly isAgreementEnough: boolean
}

/**
 * The headers that the beacon chain proves, or else those that nodes agree on. Such a header is trusted when so many nodes have it at its height: `agree`, or a majority of those that
 * answer, and 2 at least where there are 2. Headers that are not final are asked for again with each new head.
 */
export class TrustedHeaders {
  readonly #agree: number | undefined
  readonly #knownHeader: (hash: string) => TrustedHeader | undefined
  readonly #services: Pick<Services, 'upstreamClient' | 'heads' | 'log' | 'clock'>
  #hasWarned = false
  /** What polls have found counts in later versions of the head: in this one a call has met another block. */
  #doubtedVersion = -1
  readonly #byNumber = new LRUCache<number, CachedHeader>({ max: maxHeaders })
  readonly #beacon: BeaconTrust | undefined
  /** Of calls for which nodes have agreed where the beacon chain says nothing. */
  readonly #agreedRequests = new WeakSet<Request>()

  constructor(
    { agree, knownHeader, beacon }: TrustedHeadersOptions,
    services: Pick<Services, 'upstreamClient' | 'heads' | 'log' | 'clock'>,
  ) {
    this.#agree = agree
    this.#knownHeader = knownHeader
    this.#beacon = beacon
    this.#services = services
  }

  /** The failure in place of an answer, where no header is trusted. */
  get notTrusted(): Failure {
    return this.#beacon === undefined ? notAgreed : notSigned
  }

  /** The answer relies on nodes that agree, although the beacon chain is asked. */
  isAgreedOnly({ context: { request } }: VerifiedCall): boolean {
    return this.#agreedRequests.has(request)
  }

  /** The header at that height; undefined where none is trusted. */
  at(number: number, call: VerifiedCall): Promise<TrustedHeader | undefined> {
    return this.#beacon === undefined ? this.#agreedFrom(number, call) : this.#signedOr(this.#beacon.headers.at(number, call), number, call)
  }

  /**
   * The header of the newest block, which nodes have at that height: the newest that is signed, else one that is not below what callers were told. Not every
   * node has it at once.
   */
  latest(number: number, call: VerifiedCall): Promise<TrustedHeader | undefined> {
    const least = this.#services.heads.snapshot.reportedHeight
    return this.#beacon === undefined
      ? this.#agreedFrom(number, call, least)
      : this.#signedOr(this.#beacon.headers.latest(call), number, call, least)
  }

  /**
   * The newest final block: as the beacon chain proves it, or else the newest one that enough nodes call final, as polls have it. Undefined where neither says anything.
   */
  async finalBlockOf(call: VerifiedCall): Promise<FinalBlock | undefined> {
    const proven = await this.#beacon?.headers.finalNumber()
    if (proven !== undefined) return { number: proven, isProven: true }
    const { heads } = this.#services
    const voters = votersOf(call, heads)
    const numbers = voters.flatMap(({ name }) => heads.snapshot.finalizedBlockOf(name)?.number ?? []).toSorted((one, other) => other - one)
    const required = requiredVotesOf(this.#agree, voterCountOf(call, heads))(numbers.length, voters.length - numbers.length)
    const number = numbers[required - 1]
    return number === undefined ? undefined : { number, isProven: false }
  }

  async #signedOr(signed: Promise<Found>, number: number, call: VerifiedCall, least?: number): Promise<TrustedHeader | undefined> {
    const header = await signed
    if (header !== 'unknown') return header
    if (this.#beacon?.isAgreementEnough !== true) return undefined
    this.#agreedRequests.add(call.context.request)
    return this.#agreedFrom(number, call, least)
  }

  /** `least`: a lower height that is as good. Nodes that have not got so far are waited for. */
  async #agreedFrom(number: number, call: VerifiedCall, least: number = number): Promise<TrustedHeader | undefined> {
    const { heads, clock } = this.#services
    const voters = votersOf(call, heads)
    const voterCount = voterCountOf(call, heads)
    const lowest = Math.max(least, number - maxBlocksBack)
    for (let height = number; height > lowest; height--) {
      const header = await this.#agreedAt(height, voters, voterCount)
      if (header !== undefined) return header
    }
    const deadline = clock.monotonic() + maxCatchUpMs
    const signal = call.signal ?? call.origin.signal
    for (;;) {
      const header = await this.#agreedAt(lowest, voters, voterCount)
      const lagging = voters.map(({ name }) => name).filter(name => !heads.hasBlock(name, lowest))
      const timeoutMs = deadline - clock.monotonic()
      if (header !== undefined || lagging.length === 0 || timeoutMs <= 0 || signal.aborted) return header
      await heads.waitForBlock(lagging, lowest, { timeoutMs, signal })
    }
  }

  /** The header at that height, if it has this hash by now: the chain may have had another block there when it was looked up last. */
  async withHash(hash: string, number: number, call: VerifiedCall): Promise<TrustedHeader | undefined> {
    const header = await this.at(number, call)
    if (header === undefined || header.hash === hash) return header
    this.forget(number)
    const now = await this.at(number, call)
    return now?.hash === hash ? now : undefined
  }

  /** Callers at the same time share the requests. */
  #agreedAt(number: number, voters: readonly Target[], voterCount: number): Promise<TrustedHeader | undefined> {
    const { snapshot } = this.#services.heads
    const { headVersion, finalityVersion } = snapshot
    const cached = this.#byNumber.get(number)
    if (cached !== undefined && cached.version === (cached.isFinal ? finalityVersion : headVersion)) return cached.header
    const header = this.#request(number, voters, voterCount)
    const isFinal = number <= (snapshot.finalizedBlockOf()?.number ?? -1)
    const requested: CachedHeader = { header, isFinal, version: isFinal ? finalityVersion : headVersion }
    this.#byNumber.set(number, requested)
    void header.then(found => {
      if (found !== undefined) requested.found = found
      else if (this.#byNumber.peek(number) === requested) this.#byNumber.delete(number)
    })
    return header
  }

  /** The header of the final block at that height, if it is known. */
  knownFinal(number: number): TrustedHeader | undefined {
    const cached = this.#byNumber.peek(number)
    return cached?.isFinal === true && cached.version === this.#services.heads.snapshot.finalityVersion ? cached.found : undefined
  }

  /** The chain may have other blocks by now: those that are not final are looked up anew. */
  forgetRecent(): void {
    this.#doubtedVersion = this.#services.heads.snapshot.headVersion
    for (const [number, { isFinal }] of this.#byNumber.entries()) if (!isFinal) this.#byNumber.delete(number)
  }

  /** The chain may have another block at that height by now. */
  forget(number: number): void {
    this.#doubtedVersion = this.#services.heads.snapshot.headVersion
    this.#byNumber.delete(number)
    this.#beacon?.headers.forget(number)
  }

  #request(number: number, voters: readonly Target[], voterCount: number): Promise<TrustedHeader | undefined> {
    const polled = this.#agreedByPolls(number, voters, voterCount)
    if (polled !== undefined) return Promise.resolve(polled)
    const answers = voters.map(target => this.#requestFrom(target, number))
    void Promise.all(answers).then(all => this.#warnOfOtherHashes(number, all))
    const headers = answers.map(answer => answer.then(header => (header === 'other hash' ? undefined : header)))
    return agreedValue(headers, ({ hash }) => hash, requiredVotesOf(this.#agree, voterCount))
  }

  /** The header that enough nodes have by their polls, of which the feed has the header. Then no node is asked. */
  #agreedByPolls(number: number, voters: readonly Target[], voterCount: number): TrustedHeader | undefined {
    const { heads } = this.#services
    if (heads.snapshot.headVersion === this.#doubtedVersion) return undefined
    const polled = voters.flatMap(({ name }) => this.#polledHeader(name, number) ?? [])
    const required = requiredVotesOf(this.#agree, voterCount)(polled.length, voters.length - polled.length)
    return polled.find(({ hash }) => polled.filter(each => each.hash === hash).length >= required)
  }

  /** The block that the node has at that height: its newest block leads there. */
  #polledHeader(name: string, number: number): TrustedHeader | undefined {
    const head = this.#services.heads.headOf(name)
    if (head === undefined || head.number - number > maxPolledDepth) return undefined
    let header = this.#knownHeader(head.hash)
    while (header !== undefined && header.number > number) header = this.#knownHeader(header.parentHash)
    return header?.number === number ? header : undefined
  }

  #warnOfOtherHashes(block: number, answers: readonly (TrustedHeader | 'other hash' | undefined)[]): void {
    if (this.#hasWarned || answers.every(answer => answer !== 'other hash') || answers.some(answer => typeof answer === 'object')) return
    this.#hasWarned = true
    this.#services.log.warn({ block }, 'headers of upstreams do not hash as those of Ethereum: nothing is proven of this chain')
  }

  /** Undefined where the node does not answer, or lacks the block. */
  async #requestFrom(target: Target, number: number): Promise<TrustedHeader | 'other hash' | undefined> {
    const request = { method: 'eth_getBlockByNumber', params: [toHexQuantity(number), false] }
    const reply = await this.#services.upstreamClient.request(target, request, {
      timeoutMs: requestTimeoutMs,
      maxBytes: maxHeaderBytes,
      signal: new Cancellation(),
      idempotent: true,
    })
    if (isFailure(reply)) return undefined
    const block: Json = JSON.parse(toBuffer(reply.result).toString())
    if (block === null) return undefined
    return toTrustedHeader(block, ({ number: found }) => isSameHex(found, toHexQuantity(number))) ?? 'other hash'
  }
}
