import { setImmediate } from 'node:timers/promises'
import type { Secret, Services, Timer } from '../../../src/plugin/plugin.ts'
import { toHex } from '../hex.ts'
import { verifyMetrics } from '../metrics.ts'
import { periodOf, slotAt, slotSeconds, slotsPerCheckpoint, timeOf, withForkSchedule } from './beacon-chain.ts'
import type { BeaconChain } from './beacon-chain.ts'
import { BeaconNode, BeaconUnavailable, maxUpdates } from './beacon-node.ts'
import { LightClient, UnprovenUpdate } from './light-client.ts'
import type { BeaconHeader } from './light-client.ts'

/** An execution block whose beacon block the sync committee has signed. */
export interface SignedBlock extends Pick<BeaconHeader, 'slot' | 'blockHash' | 'blockNumber'> {
  /** On the monotonic clock. */
  readonly signedAt: number
}

interface BeaconHeadsOptions {
  readonly url: Secret
  readonly headers: Readonly<Record<string, Secret>>
  readonly checkpoint: string
  readonly maxCheckpointAgeMs: number
  readonly chain: BeaconChain
}

type BeaconHeadsServices = Pick<Services, 'clock' | 'log' | 'metrics' | 'records' | 'problems'>

/** The signatures of a slot come with the block of the next one, some seconds into it. */
const pollMs = 4_000
const retryMs = slotSeconds * 1000
/** Polling ends when so long no call has needed it. */
const idleMs = 60_000
/** Without calls: a committee signs for 27 hours, and the next one must be known by then. */
const idlePollMs = 3_600_000
const finalityPollMs = slotsPerCheckpoint * slotSeconds * 1000
/** Of the next committee in a period that has just begun, and of forks that may have been scheduled. */
const rarePollMs = 3_600_000
/** An older block is not the newest one: the consensus node is behind, or keeps blocks back. */
const maxHeadAgeMs = 60_000
const maxRecent = 16
/** A chain that finalizes has done so 20 minutes ago at most, and is asked of it every 6.4 minutes. */
const maxFinalAgeMs = 1_800_000

/** What operators are told, by the name of the problem: no other lasts. */
type BeaconProblem = 'beacon-unavailable' | 'beacon-unproven' | 'beacon-behind' | 'beacon-not-final' | 'beacon-block-missing'

/** What becomes of calls about blocks of which the beacon chain says nothing. */
export type Otherwise = 'refuse' | 'agree'

/** The newest blocks that the sync committee of a beacon chain has signed: polled while calls need them, and once an hour. */
export class BeaconHeads {
  readonly #options: BeaconHeadsOptions
  readonly #services: BeaconHeadsServices
  readonly #node: BeaconNode
  #chain: BeaconChain
  #client: LightClient | undefined
  /** The root of the final block in the store, as far as it is known. */
  #recordedRoot: string | undefined
  /** The newest first. */
  #recent: readonly SignedBlock[] = []
  #failure: string | undefined
  #otherwise: Otherwise = 'refuse'
  /** The hash of the last block that no upstream had: each is logged once. */
  #missing: string | undefined
  #usedAt = -Infinity
  #finalityAt = -Infinity
  #committeesAt = -Infinity
  #forksAt = -Infinity
  #timer: Timer | undefined
  #dueAt = Infinity
  #isRunning = false
  #isStopped = false
  readonly #waiting = new Set<() => void>()
  /** What lasts, and how it ends. */
  readonly #problems = new Map<BeaconProblem, () => void>()

  constructor(options: BeaconHeadsOptions, services: BeaconHeadsServices) {
    this.#options = options
    this.#services = services
    this.#node = new BeaconNode(options)
    this.#chain = options.chain
  }

  /** The newest one, unless it is older than a minute. */
  get head(): SignedBlock | undefined {
    const [head] = this.#recent
    return head !== undefined && this.#services.clock.now() - timeOf(this.#chain, head.slot) <= maxHeadAgeMs ? head : undefined
  }

  /** Of the newest final block that is known; undefined since the fork Gloas, whose beacon headers have none. */
  get finalNumber(): number | undefined {
    return this.#client?.finalized.blockNumber
  }

  /** The newest one that has been known for so long. */
  signedBefore(ageMs: number): SignedBlock | undefined {
    const now = this.#services.clock.monotonic()
    return this.#recent.find(({ signedAt }) => now - signedAt >= ageMs)
  }

  /** The consensus node does not answer, or proves nothing: waiting is of no use. */
  get isFailing(): boolean {
    return this.#failure !== undefined
  }

  /** Also after a reload, which may have changed what becomes of calls. */
  start(otherwise: Otherwise): void {
    this.#otherwise = otherwise
    if (this.#timer === undefined && !this.#isRunning) this.#schedule(0)
  }

  /** A call needs the newest block. */
  use(): void {
    const now = this.#services.clock.monotonic()
    this.#usedAt = now
    if (!this.#isRunning && this.#dueAt > now + retryMs) this.#schedule(0)
  }

  /** Whether an upstream has the block: else all are behind, or have another chain, and no call about the newest block is answered. */
  recordFound({ slot, blockHash }: SignedBlock, isFound: boolean): void {
    if (slot !== this.#recent[0]?.slot) return
    this.#report('beacon-block-missing', !isFound && 'no upstream has the newest block that the beacon chain proves')
    if (isFound || this.#missing === blockHash) return
    this.#missing = blockHash
    const fields = { event: 'beacon-block-missing', slot, block: blockHash }
    this.#services.log.warn(fields, 'no upstream has the block that the beacon chain proves')
  }

  /** Resolves with the next signed block, or after the time. */
  async next(timeoutMs: number): Promise<void> {
    let timer: Timer | undefined
    await new Promise<void>(resolve => {
      this.#waiting.add(resolve)
      timer = this.#services.clock.after(timeoutMs, () => {
        this.#waiting.delete(resolve)
        resolve()
      })
    })
    timer?.cancel()
  }

  stop(): void {
    this.#isStopped = true
    for (const end of this.#problems.values()) end()
    this.#timer?.cancel()
    for (const resolve of this.#waiting) resolve()
    this.#waiting.clear()
  }

  #schedule(delayMs: number): void {
    if (this.#isStopped) return
    const { clock } = this.#services
    this.#timer?.cancel()
    this.#dueAt = clock.monotonic() + delayMs
    this.#timer = clock.after(delayMs, () => void this.#runRound())
  }

  async #runRound(): Promise<void> {
    if (this.#isRunning) return
    this.#isRunning = true
    try {
      await this.#sync()
      this.#recordSuccess()
    } catch (error) {
      this.#recordFailure(error)
    }
    this.#isRunning = false
    const isUsed = this.#services.clock.monotonic() - this.#usedAt < idleMs
    // Upstreams are asked for the block by calls alone.
    if (!isUsed || this.head === undefined) this.#report('beacon-block-missing', false)
    if (this.#failure !== undefined) this.#schedule(retryMs)
    else this.#schedule(isUsed ? pollMs : idlePollMs)
  }

  async #sync(): Promise<void> {
    const { clock } = this.#services
    if (this.#isDue(this.#forksAt, rarePollMs)) {
      this.#chain = withForkSchedule(this.#options.chain, 'gloas', await this.#node.forkEpoch('gloas'))
      this.#forksAt = clock.monotonic()
    }
    const client = (this.#client ??= await this.#open())
    const slot = slotAt(this.#chain, clock.now())
    if (clock.now() - timeOf(this.#chain, client.finalized.slot) > this.#options.maxCheckpointAgeMs) {
      const ageDays = Math.floor((clock.now() - timeOf(this.#chain, client.finalized.slot)) / 86_400_000)
      // The next round begins again, with what the store has by then.
      this.#client = undefined
      throw new UnprovenUpdate(
        `the last known final block is ${ageDays} days old: set \`checkpoint\` to the root of a newer finalized block`,
      )
    }
    await this.#followCommittees(client, slot)
    if (this.#isDue(this.#finalityAt, finalityPollMs)) {
      await client.update(await this.#node.finalityUpdate(), slot)
      this.#finalityAt = clock.monotonic()
    }
    await client.update(await this.#node.optimisticUpdate(), slot)
    this.#recordHead(client.head)
    this.#recordFinalized(client.finalized)
    this.#reportAges(client)
  }

  #isDue(lastAt: number, intervalMs: number): boolean {
    return this.#services.clock.monotonic() - lastAt >= intervalMs
  }

  /** From the newest final block in the store, or from the checkpoint where there is none, or the consensus node does not have it any more. */
  async #open(): Promise<LightClient> {
    const recorded = await this.#findRecorded()
    try {
      if (recorded !== undefined) return await this.#openAt(recorded)
    } catch (error) {
      if (!(error instanceof UnprovenUpdate) && !(error instanceof BeaconUnavailable)) throw error
    }
    return this.#openAt(this.#options.checkpoint)
  }

  /** The library is loaded with the first use: a native module of 0.9 MB. */
  async #openAt(checkpoint: string): Promise<LightClient> {
    const { default: bls } = await import('@chainsafe/blst')
    const bootstrap = await this.#node.bootstrap(checkpoint)
    const chain = () => this.#chain
    return LightClient.open({ chain, bls, yieldToOthers: () => setImmediate() }, checkpoint, bootstrap)
  }

  /** Undefined too while the store is unreachable: the checkpoint may be new enough. */
  async #findRecorded(): Promise<string | undefined> {
    const root = await this.#services.records.find(this.#recordName).catch(() => undefined)
    if (typeof root !== 'string') return undefined
    this.#recordedRoot = root
    return root
  }

  /** Nobody waits for the store: a root that it does not take is written again in the next round. */
  #recordFinalized({ root }: BeaconHeader): void {
    const text = toHex(root)
    if (this.#recordedRoot === text) return
    this.#recordedRoot = text
    this.#services.records.put(this.#recordName, text, this.#options.maxCheckpointAgeMs).catch(() => (this.#recordedRoot = undefined))
  }

  /** Another checkpoint in the configuration begins anew. */
  get #recordName(): string {
    return `final block after ${this.#options.checkpoint.toLowerCase()}`
  }

  /** Until the committee of the slot is known. The next one is asked for now and then: the node has it once it is final. */
  async #followCommittees(client: LightClient, slot: number): Promise<void> {
    const period = periodOf(slot)
    while (client.neededPeriod < period) {
      const { neededPeriod } = client
      await this.#updateFrom(client, slot, Math.min(maxUpdates, period - neededPeriod + 1))
      if (client.neededPeriod === neededPeriod) throw new BeaconUnavailable(`light_client/updates: nothing new of period ${neededPeriod}`)
    }
    if (client.neededPeriod > period || !this.#isDue(this.#committeesAt, rarePollMs)) return
    this.#committeesAt = this.#services.clock.monotonic()
    await this.#updateFrom(client, slot, 1)
  }

  async #updateFrom(client: LightClient, slot: number, count: number): Promise<void> {
    for (const update of await this.#node.updates(client.neededPeriod, count)) await client.update(update, slot)
  }

  #recordHead({ slot, blockHash, blockNumber }: BeaconHeader): void {
    const { clock, metrics } = this.#services
    if (this.#recent[0]?.slot === slot) return
    this.#recent = [{ slot, blockHash, blockNumber, signedAt: clock.monotonic() }, ...this.#recent].slice(0, maxRecent)
    metrics.gauge(verifyMetrics.beaconHeadTime, {}).set(timeOf(this.#chain, slot) / 1000)
    for (const resolve of this.#waiting) resolve()
    this.#waiting.clear()
  }

  /** What the consensus node returns is signed, and may be old all the same. */
  #reportAges({ head, finalized }: Pick<LightClient, 'head' | 'finalized'>): void {
    const now = this.#services.clock.now()
    const [headAgeMs, finalAgeMs] = [head, finalized].map(({ slot }) => now - timeOf(this.#chain, slot)) as [number, number] // two of two
    this.#report(
      'beacon-behind',
      headAgeMs > maxHeadAgeMs &&
        `the newest block that the consensus node has signatures of is ${formatAge(headAgeMs)} old: no newer one is proven`,
    )
    this.#report(
      'beacon-not-final',
      finalAgeMs > maxFinalAgeMs &&
        `the beacon chain has made no block final for ${formatAge(finalAgeMs)}, or the consensus node is behind`,
    )
  }

  /** A problem lasts while there is a text. After a reload that changes the options there are two of these for a moment: each ends what it has begun. */
  #report(name: BeaconProblem, text: string | false): void {
    if (this.#isStopped) return
    const severity = this.#isCritical(name) ? 'critical' : 'warning'
    if (text !== false) return void this.#problems.set(name, this.#services.problems.begin(name, { severity, text }))
    this.#problems.get(name)?.()
    this.#problems.delete(name)
  }

  /** Whether callers notice. */
  #isCritical(name: BeaconProblem): boolean {
    if (name === 'beacon-block-missing') return true
    return name !== 'beacon-not-final' && this.#otherwise === 'refuse'
  }

  #recordSuccess(): void {
    const { log, metrics } = this.#services
    this.#report('beacon-unavailable', false)
    this.#report('beacon-unproven', false)
    metrics.counter(verifyMetrics.beaconRounds, { outcome: 'succeeded' }).add()
    const slot = this.#recent[0]?.slot
    if (this.#failure !== undefined) log.info({ event: 'beacon-recovered', slot }, 'the consensus node proves new blocks again')
    this.#failure = undefined
  }

  #recordFailure(error: unknown): void {
    const { log, metrics } = this.#services
    const outcome = error instanceof UnprovenUpdate ? 'unproven' : 'unavailable'
    metrics.counter(verifyMetrics.beaconRounds, { outcome }).add()
    if (!(error instanceof UnprovenUpdate) && !(error instanceof BeaconUnavailable)) {
      this.#failure = 'bug'
      return log.error({ err: error }, 'headers of the beacon chain could not be followed because of a bug')
    }
    const { message: reason } = error
    const failing = `beacon-${outcome}` as const
    const other = outcome === 'unproven' ? 'beacon-unavailable' : 'beacon-unproven'
    this.#report(other, false)
    this.#report(
      failing,
      `${outcome === 'unproven' ? 'no new block is proven by the consensus node' : 'the consensus node does not answer'}: ${reason}`,
    )
    // The same but for numbers is logged once.
    const failure = reason.replace(/\d+/g, '#')
    if (this.#failure === failure) return
    this.#failure = failure
    if (outcome === 'unproven') {
      const level = this.#isCritical('beacon-unproven') ? 'error' : 'warn'
      log[level]({ event: 'beacon-unproven', reason }, `no new block is proven by the consensus node: ${reason}`)
    } else log.warn({ event: 'beacon-unavailable', reason }, `the consensus node does not answer: ${reason}`)
  }
}

const formatAge = (ms: number): string => (ms < 3_600_000 ? `${Math.floor(ms / 60_000)} min` : `${Math.floor(ms / 3_600_000)} h`)
