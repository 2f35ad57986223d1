import { getOrCreate } from '../../util/memoize.ts'
import type { Clock } from '../clock.ts'
import type { Log } from '../log.ts'
import type { ExclusionReason } from '../node-reasons.ts'
import type { Exclusion, Head, UpstreamState } from './heads-types.ts'
import type { HeadSelection } from './network-head.ts'
import { minAgreeingPolls } from './poll-schedule.ts'
import type { UpstreamTracker } from './upstream-tracker.ts'

interface ExclusionCriteria {
  /** The network's head. */
  readonly head: Head | undefined
  /** Blocks that an upstream may lag behind the head. */
  readonly maxLagBlocks: number
  /** The names of the upstreams whose heads are implausible. */
  readonly implausible: ReadonlySet<string>
}

/** Which upstreams are excluded from calls, and why. A change is logged. */
export class UpstreamExclusions {
  readonly #log: Log
  readonly #clock: Clock
  readonly #exclusions = new Map<string, Exclusion>()
  readonly #since = new Map<string, number>()
  /** Of each upstream with an implausible head: the heads that it had returned before. */
  readonly #headsBeforeImplausible = new Map<string, number>()

  constructor({ log, clock }: { readonly log: Log; readonly clock: Clock }) {
    this.#log = log
    this.#clock = clock
  }

  get(upstream: string): Exclusion | undefined {
    return this.#exclusions.get(upstream)
  }

  /** When the exclusion began, in ms since 1970; undefined for an upstream that is not excluded. */
  sinceOf(upstream: string): number | undefined {
    return this.#exclusions.has(upstream) ? this.#since.get(upstream) : undefined
  }

  evaluate(upstreams: readonly UpstreamTracker[], criteria: ExclusionCriteria): void {
    const names = new Set(upstreams.map(({ name }) => name))
    for (const name of this.#exclusions.keys()) if (!names.has(name)) this.#exclusions.delete(name)
    for (const upstream of upstreams) this.#set(upstream, this.#exclusionOf(upstream, criteria))
  }

  #exclusionOf(upstream: UpstreamTracker, { head, maxLagBlocks, implausible }: ExclusionCriteria): Exclusion | undefined {
    const { chain } = upstream
    if (chain.isWrongChain) return { reason: 'chain', description: `its chain ID is ${chain.upstreamChainId}` }
    if (chain.result === 'failed') {
      const cause = chain.failure
      return { reason: 'unverified', description: `it has not returned its chain ID: ${cause}`, cause }
    }
    const aheadBlocks = head === undefined || upstream.head === undefined ? 0 : upstream.head.number - head.number
    if (this.#isPersistentlyImplausible(upstream, implausible))
      return { reason: 'ahead', description: `its head is implausibly high: ${aheadBlocks} blocks ahead` }
    const mayLag = !upstream.isHeadOutdated || this.get(upstream.name)?.reason === 'lag'
    return mayLag && -aheadBlocks > maxLagBlocks ? { reason: 'lag', description: `its head lags ${-aheadBlocks} blocks behind` } : undefined
  }

  /** Upstreams do not receive a block at the same moment: the first has it alone until the others are polled. */
  #isPersistentlyImplausible({ name, headsReceived }: UpstreamTracker, implausible: ReadonlySet<string>): boolean {
    if (!implausible.has(name)) {
      this.#headsBeforeImplausible.delete(name)
      return false
    }
    return headsReceived - getOrCreate(this.#headsBeforeImplausible, name, () => headsReceived) >= minAgreeingPolls - 1
  }

  #set({ name: upstream }: UpstreamTracker, exclusion: Exclusion | undefined): void {
    const previous = this.#exclusions.get(upstream)
    if (previous === undefined) this.#since.set(upstream, this.#clock.now())
    if (exclusion !== undefined) this.#exclusions.set(upstream, exclusion)
    if (exclusion?.reason === previous?.reason && exclusion?.cause === previous?.cause) return
    if (exclusion === undefined) {
      this.#exclusions.delete(upstream)
      return this.#log.info({ upstream }, 'upstream no longer excluded')
    }
    const { reason, description, cause } = exclusion
    this.#log[logLevels[reason]]({ upstream, reason, description, cause }, logMessages[reason])
  }
}

/** What may end by itself is a warning. The other reasons need an operator: an error. */
const logLevels = { chain: 'error', unverified: 'warn', lag: 'warn', ahead: 'error' } as const

const logMessages: Readonly<Record<ExclusionReason, string>> = {
  chain: 'upstream excluded: wrong chain ID',
  unverified: 'upstream excluded: it has not returned its chain ID',
  lag: 'upstream excluded: its head lags too far behind',
  ahead: 'upstream excluded: its head is implausibly high',
}

/** The state of an upstream for workers and operators. */
export const upstreamStateOf = (upstream: UpstreamTracker, selection: HeadSelection, exclusions: UpstreamExclusions): UpstreamState => {
  const { name, chain, head, finalized, isSubscribed, pollReport } = upstream
  const exclusion = exclusions.get(name)
  return {
    name,
    fingerprint: chain.fingerprint,
    chainCheck: chain.result,
    ...(head && { head }),
    ...(finalized && !selection.isImplausible(upstream) && { finalized }),
    isSubscribed,
    ...(exclusion && { exclusion }),
    ...(pollReport.failure !== undefined && { failure: pollReport.failure }),
  }
}
