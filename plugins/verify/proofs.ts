import { copyReply, isFailure } from '../../src/plugin/plugin.ts'
import type { Method, Reply, Services } from '../../src/plugin/plugin.ts'
import { BeaconHeaders } from './beacon/beacon-headers.ts'
import type { BeaconHeads, Otherwise } from './beacon/beacon-heads.ts'
import type { TrustedHeader } from './block-header.ts'
import type { ChainRules } from './chain-rules.ts'
import { isPending } from './checks.ts'
import { FeedHeaders } from './feed-headers.ts'
import { HistoryAnswers } from './history-answers.ts'
import { LogAnswers } from './log-answers.ts'
import type { VerifyCounters } from './metrics.ts'
import { mayHaveMoved, notAgreed } from './node-requests.ts'
import type { NextPlugin, VerifiedCall } from './verified-call.ts'
import { provableHistory, provableMethods, whyUnprovable } from './provable-methods.ts'
import { ProvenBlocks } from './proven-blocks.ts'
import { ProvenCodes } from './proven-codes.ts'
import { Readmission } from './readmission.ts'
import { StateAnswers } from './state-answers.ts'
import { TrustedHeaders } from './trusted-headers.ts'
import type { WorkTurns } from './work-turns.ts'
import type { ConfirmRight, RecordIfRight, RefuseWrong } from './wrong-results.ts'

/** The beacon chain, which says which headers are trusted. */
interface BeaconOptions {
  readonly heads: BeaconHeads
  readonly otherwise: Otherwise
}

interface ProofsOptions {
  readonly agree: number | undefined
  readonly beacon: BeaconOptions | undefined
  readonly maxBlocks: number
  readonly maxProofBytes: number
  /** Whether a node that lied gets calls again. */
  readonly readmit: boolean
  readonly rules: ChainRules
  readonly counters: VerifyCounters
  readonly refuseWrong: RefuseWrong
  readonly confirmRight: ConfirmRight
  readonly recordIfRight: RecordIfRight
  readonly turns: WorkTurns
}

/** Answers calls about one part of the chain. */
interface ProvenAnswers {
  /** Undefined: nothing is proven of this call. */
  answer(call: VerifiedCall, method: Method, next: NextPlugin): Promise<Reply | undefined>
}

/** Of one node about one call, within the time: a reorg comes to the nodes one after the other. */
const maxAttempts = 3
const maxAttemptsMs = 4_000

/** Of blocks, and as many of receipts. */
const maxCachedBytes = 33_554_432

/** Answers calls with what headers prove. */
export class Proofs {
  readonly headers: TrustedHeaders
  readonly blocks: ProvenBlocks
  readonly codes = new ProvenCodes()
  readonly #options: ProofsOptions
  readonly #services: Services
  readonly #feedHeaders: FeedHeaders
  readonly #readmission: Readmission
  /** By name, the methods of which something is proven. */
  readonly #provable: ReadonlyMap<string, { readonly method: Method; readonly answers: ProvenAnswers }>

  constructor(options: ProofsOptions, services: Services) {
    const { agree, beacon, rules, refuseWrong, confirmRight, recordIfRight, turns } = options
    const { methods, network } = services
    this.#options = options
    this.#services = services
    this.blocks = new ProvenBlocks({ refuseWrong, confirmRight, rules, maxCachedBytes, turns })
    const knownHeader = (hash: string) => this.blocks.knownHeader(hash)
    this.headers = new TrustedHeaders(
      { agree, knownHeader, beacon: beacon && toBeaconTrust(beacon, { knownHeader, refuseWrong }, services) },
      services,
    )
    this.#feedHeaders = new FeedHeaders(header => this.blocks.recordHeader(header), services)
    const answersOf = this.#openAnswers(this.blocks)
    const answersAloneOf = this.#openAnswers(new ProvenBlocks({ refuseWrong, confirmRight, rules, maxCachedBytes: 0, turns }))
    this.#readmission = new Readmission(
      { recordIfRight, proveAlone: (call, method, next) => answersAloneOf(method.name).answer(call, method, next) },
      services,
    )
    this.#provable = new Map(
      provableMethods.flatMap(name => {
        const method = methods.get(name)
        return method === undefined || whyUnprovable(name, network) !== undefined
          ? []
          : [[name, { method, answers: answersOf(name) }] as const]
      }),
    )
  }

  has(name: string): boolean {
    return this.#provable.has(name)
  }

  /** The proven answer, or a failure in its place; undefined where nothing is proven of this call. */
  async prove(call: VerifiedCall, next: NextPlugin): Promise<Reply | undefined> {
    const { request, target } = call.context
    const proven = this.#provable.get(request.method)
    if (proven === undefined || isPending(proven.method, request)) return undefined
    const { clock } = this.#services
    const startedAt = clock.monotonic()
    let reply = await proven.answers.answer(call, proven.method, next)
    for (let attempts = 1; attempts < maxAttempts && reply !== undefined && mayHaveMoved(reply); attempts++) {
      if (clock.monotonic() - startedAt >= maxAttemptsMs) break
      // What nodes do not agree on is not kept; in an outage, what they agreed on before is needed.
      if (reply !== notAgreed) this.headers.forgetRecent()
      reply = await proven.answers.answer(call, proven.method, next)
    }
    if (reply === undefined || isFailure(reply)) return reply
    const { verified = this.headers.isAgreedOnly(call) ? 'quorum' : 'proof' } = reply
    if (verified === 'proof') {
      this.#options.counters.count(target.name, 'proven')
      if (this.#options.readmit) this.#readmission.begin(reply, call, proven.method, next)
    }
    return copyReply(reply, { verified })
  }

  stop(): void {
    this.#feedHeaders.stop()
  }

  #openAnswers(blocks: ProvenBlocks): (name: string) => ProvenAnswers {
    const { agree, maxBlocks, maxProofBytes, refuseWrong, confirmRight, turns } = this.#options
    const common = { headers: this.headers, blocks, refuseWrong, confirmRight, turns }
    const states = new StateAnswers({ ...common, codes: this.codes }, this.#services)
    const history = new HistoryAnswers({ ...common, agree }, this.#services)
    const logs = new LogAnswers({ ...common, maxBlocks, maxProofBytes, onUse: () => this.#feedHeaders.use() }, this.#services)
    return name => (name === 'eth_getLogs' ? logs : provableHistory.includes(name) ? history : states)
  }
}

/** As for a block that nodes do not have yet. Where they may agree in place of the beacon chain, nothing is waited for. */
const maxSignatureWaitMs = 4_000

const toBeaconTrust = (
  { heads: beacon, otherwise }: BeaconOptions,
  options: { knownHeader(hash: string): TrustedHeader | undefined; readonly refuseWrong: RefuseWrong },
  services: Services,
) => {
  const isAgreementEnough = otherwise === 'agree'
  const headers = new BeaconHeaders({ ...options, beacon, maxWaitMs: isAgreementEnough ? 0 : maxSignatureWaitMs }, services)
  return { headers, isAgreementEnough }
}
