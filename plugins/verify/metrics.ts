import type { TypedMetric } from '../../src/plugin/internal.ts'
import type { Counter, Services } from '../../src/plugin/plugin.ts'

export const verifyMetrics = {
  verifiedResults: {
    name: 'tollgate_verified_results_total',
    type: 'counter',
    labels: ['network', 'upstream', 'outcome'],
    help: 'Results of upstreams that the plugin verify has looked at: "proven", "agreed" by a quorum, "passed" its checks, "refused" as wrong, or "unchecked", because they were too long, pending, or of a kind that no check is known to hold for.',
  },
  upstreamLies: {
    name: 'tollgate_upstream_lies_total',
    type: 'counter',
    labels: ['network', 'upstream'],
    help: 'Results of upstreams that do not fit the header of their block, on which upstreams agree.',
  },
  beaconHeadTime: {
    name: 'tollgate_beacon_head_timestamp_seconds',
    type: 'gauge',
    labels: ['network'],
    help: 'Time of the slot of the newest block that the sync committee of the beacon chain has signed, in seconds since 1970; of a network with the option beacon.',
  },
  beaconRounds: {
    name: 'tollgate_beacon_rounds_total',
    type: 'counter',
    labels: ['network', 'outcome'],
    help: 'Rounds in which the consensus node was asked for signed blocks: "succeeded", "unavailable", or "unproven", where it returned what its sync committee has not signed.',
  },
} as const satisfies Readonly<Record<string, TypedMetric>>

type Outcome = 'proven' | 'agreed' | 'passed' | 'refused' | 'unchecked'

/** Series are opened once: upstreams are few. */
export class VerifyCounters {
  readonly #metrics: Services['metrics']
  readonly #series = new Map<string, Counter>()

  constructor({ metrics }: Pick<Services, 'metrics'>) {
    this.#metrics = metrics
  }

  count(upstream: string, outcome: Outcome): void {
    this.#add(`${outcome} ${upstream}`, () => this.#metrics.counter(verifyMetrics.verifiedResults, { upstream, outcome }))
  }

  countLie(upstream: string): void {
    this.#add(`lie ${upstream}`, () => this.#metrics.counter(verifyMetrics.upstreamLies, { upstream }))
  }

  #add(key: string, open: () => Counter): void {
    const counter = this.#series.get(key) ?? open()
    this.#series.set(key, counter)
    counter.add()
  }
}
