import { Cancellation } from '../../plugin/call.ts'
import type { Call, Signal, Target } from '../../plugin/call.ts'
import { isFailure } from '../../plugin/reply.ts'
import type { ErrorCategory } from '../../plugin/error-table.ts'
import type { Failure } from '../../plugin/reply.ts'
import { singleFlight } from '../../util/async.ts'
import { getOrCreate } from '../../util/memoize.ts'
import type { MethodTable, Services } from '../index.ts'
import { LatencyTracker } from './latency-tracker.ts'
import { unresponsive } from './request-deadline.ts'
import type { RequestOptions } from './request-deadline.ts'

/** A call is silent when its response takes so many times the 95th percentile of its class. A few slow calls, as at a start, do not change that. */
const silenceFactor = 2
const minProbeAfterMs = 100
const maxProbeAfterMs = 2000
/** While the latency of the class is unknown. */
const defaultProbeAfterMs = 250

/** A probe may take so many times the 95th percentile of the fastest class, as it may wait behind calls that are slower. */
const probeTimeoutFactor = 4
const minProbeTimeoutMs = 250
const maxProbeTimeoutMs = 1000

/** An upstream that sends so many bytes during a probe is busy with long responses. */
const minWorkingBytes = 16_384

type ProbeServices = Pick<Services, 'upstreamClient' | 'methods' | 'log'>

/**
 * What the calls to an upstream show of it: how long each class of methods usually takes, and whether it responds at all.
 * `upstream` reports what comes in, and probes an upstream that is silent; `failover` decides what becomes of the calls.
 */
export class UpstreamActivity {
  /** Called each time a probe shows that the upstream is unresponsive, with the failure of its calls. Without it, the silent requests fail. */
  onUnresponsive: ((failure: Failure) => void) | undefined
  readonly #target: Target
  readonly #cancellation = new Cancellation()
  /** By class of method. */
  readonly #latencies = new Map<string, LatencyTracker>()
  /** By the signals of the calls. */
  readonly #answeredAt = new WeakMap<Signal, number>()
  #responseCount = 0
  #receivedBytes = 0
  #isUnresponsive = false

  constructor(target: Target) {
    this.#target = target
  }

  /** True from a failed probe until the next response. */
  get isUnresponsive(): boolean {
    return this.#isUnresponsive
  }

  latencyOf(methodClass: string): LatencyTracker {
    return getOrCreate(this.#latencies, methodClass, createLatencyTracker)
  }

  /** The classes of which latencies are known. */
  get latencyClasses(): readonly string[] {
    return [...this.#latencies.keys()]
  }

  /** How long a call of this class may be silent before the upstream is probed, in ms. */
  probeAfterMs(methodClass: string): number {
    const quantiles = this.#latencies.get(methodClass)?.quantiles
    return quantiles === undefined ? defaultProbeAfterMs : clamp(silenceFactor * quantiles.p95, minProbeAfterMs, maxProbeAfterMs)
  }

  /** The upstream has responded to a call, with a result or an error. */
  recordResponse(): void {
    this.#responseCount += 1
    this.#isUnresponsive = false
  }

  /** The upstream has answered this call, which waits for the answers of others too: what they take is no latency of this one. */
  recordAnswered({ signal }: Pick<Call, 'signal'>, now: number): void {
    if (signal !== undefined) this.#answeredAt.set(signal, now)
  }

  /** Undefined where recordAnswered() has not been called for a call with this signal. */
  answeredAt(signal: Signal): number | undefined {
    return this.#answeredAt.get(signal)
  }

  /** So many bytes of a response have come. */
  readonly recordBytes = (bytes: number): void => {
    this.#receivedBytes += bytes
  }

  /** A call is silent: false when it should fail. One check at a time, however many calls are silent. */
  readonly isAlive = singleFlight(async (services: ProbeServices): Promise<boolean> => {
    const isUnresponsive = (await this.probe(services, this.#livenessTimeoutMs)) === 'unreachable'
    if (isUnresponsive) this.#reportUnresponsive(services)
    return !isUnresponsive || this.onUnresponsive !== undefined
  })

  /** One probe at a time. `unreachable`: the probe failed, and the upstream has responded to no call meanwhile either. */
  readonly probe = singleFlight(async (services: ProbeServices, timeoutMs: number): Promise<ProbeResult> => {
    const [responsesBefore, bytesBefore] = [this.#responseCount, this.#receivedBytes]
    const health = await probeUpstream(this.#target, services, { timeoutMs, signal: this.#cancellation })
    const isWorking = this.#responseCount > responsesBefore || this.#receivedBytes - bytesBefore >= minWorkingBytes
    if (health !== 'unreachable' || isWorking) this.#isUnresponsive = false
    return health === 'unreachable' && isWorking ? 'erroring' : health
  })

  stop(): void {
    this.#cancellation.abort()
  }

  /** The probe is as cheap as the calls of the fastest class. */
  get #livenessTimeoutMs(): number {
    const p95s = Array.from(this.#latencies.values(), ({ quantiles }) => quantiles?.p95 ?? Infinity)
    return clamp(probeTimeoutFactor * Math.min(...p95s), minProbeTimeoutMs, maxProbeTimeoutMs)
  }

  #reportUnresponsive({ log }: ProbeServices): void {
    if (!this.#isUnresponsive) log.warn({ upstream: this.#target.name }, 'upstream unresponsive')
    this.#isUnresponsive = true
    this.onUnresponsive?.(unresponsive(this.#target))
  }
}

const clamp = (value: number, min: number, max: number): number => Math.min(max, Math.max(min, value))

const createLatencyTracker = (): LatencyTracker => new LatencyTracker()

const activities = new WeakMap<Target, UpstreamActivity>()

/** The activity of an upstream, which all plugins share that send it calls. */
export const activityOf = (target: Target): UpstreamActivity => getOrCreate(activities, target, createActivity)

const createActivity = (target: Target): UpstreamActivity => new UpstreamActivity(target)

/**
 * The health of a node by its reply to a cheap request. `healthy` includes a node that is rate limiting. `erroring`: the
 * reply is an error. `unreachable`: no JSON-RPC came from the node, as from a proxy whose backend is down.
 */
type ProbeResult = 'healthy' | 'erroring' | 'unreachable'

const probeRequest = { method: 'eth_blockNumber', params: [] }
const maxProbeResponseBytes = 65_536

/** Requests the height of the node, ahead of the calls that wait for its concurrency limit. */
export const probeUpstream = async (
  target: Target,
  { upstreamClient, methods }: Pick<Services, 'upstreamClient' | 'methods'>,
  options: Pick<RequestOptions, 'timeoutMs' | 'signal'>,
): Promise<ProbeResult> => {
  const reply = await upstreamClient.request(target, probeRequest, {
    ...options,
    maxBytes: maxProbeResponseBytes,
    idempotent: true,
    bypassConcurrencyLimit: true,
  })
  if (!isFailure(reply) || errorCategoryOf(reply, methods) === 'rateLimited') return 'healthy'
  return reply.fault === 'upstream' ? 'unreachable' : 'erroring'
}

/** A rate limit comes as an HTTP status, or as a JSON-RPC error. */
const errorCategoryOf = ({ kind, error, nodeError, category }: Failure, methods: MethodTable): ErrorCategory | undefined => {
  const rpcError = kind === 'node' ? error : nodeError
  return rpcError === undefined ? category : methods.errorCategory(rpcError, probeRequest.method)
}
