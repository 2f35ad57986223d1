import type { RedisAddress } from '../../config/types.ts'
import type { Clock } from '../../services/clock.ts'
import type { Log } from '../../services/log.ts'
import { TokenBuckets } from '../../services/rate-limits.ts'
import type { TokenRequest } from '../../services/rate-limits.ts'
import { RemoteRateLimits } from '../../services/remote-rate-limits.ts'
import type { TokenGrant } from '../../services/remote-rate-limits.ts'
import { withTimeoutOr } from '../../util/async.ts'
import { RedisConnection } from './redis-connection.ts'
import { redisKeys } from './redis-layout.ts'
import { takeTokens } from './redis-scripts.ts'

/** A call waits so long for Redis. */
const redisTimeoutMs = 50

/** While Redis does not answer, it is asked this often; calls do not wait for it meanwhile. */
const retryIntervalMs = 1_000

/** The buckets of all gateways that share a Redis. Connects with the first call that has a limit. */
export class RedisRateLimits extends RemoteRateLimits {
  readonly #source: RedisTokens

  constructor(address: RedisAddress, clock: Clock, log: Log) {
    const source = new RedisTokens(address, clock, log)
    super(clock, source.request, new TokenBuckets(clock))
    this.#source = source
  }

  close(): Promise<void> {
    return this.#source.close()
  }
}

class RedisTokens {
  readonly #clock: Clock
  readonly #log: Log
  readonly #redis: RedisConnection
  #opening: Promise<void> | undefined
  #isAway = false
  /** On the monotonic clock. */
  #retryAt = -Infinity

  constructor(address: RedisAddress, clock: Clock, log: Log) {
    this.#clock = clock
    this.#log = log
    this.#redis = new RedisConnection(address, clock, { retryInitialConnect: true })
  }

  readonly request = async (request: TokenRequest, most: number): Promise<TokenGrant | undefined> => {
    if (this.#clock.monotonic() < this.#retryAt) return undefined
    const grant = await withTimeoutOr(this.#clock, redisTimeoutMs, this.#take(request, most), () => undefined).catch(() => undefined)
    this.#recordAnswer(grant !== undefined)
    return grant
  }

  close(): Promise<void> {
    return this.#redis.close()
  }

  async #take({ bucket, rate: { perSecond, burst }, tokens }: TokenRequest, most: number): Promise<TokenGrant> {
    // Rejects at close() only.
    await (this.#opening ??= this.#redis.open().catch(() => undefined))
    const reply = await this.#redis.runScript(takeTokens, [redisKeys.tokens(bucket)], [perSecond, burst, tokens, most])
    const [granted, waitMs, left] = (reply as readonly string[]).map(Number) as [number, number, number] // as the script promises
    const state = { remaining: Math.max(0, Math.floor(left)), resetsInMs: ((burst - left) / perSecond) * 1000 }
    return { granted, waitMs, state }
  }

  #recordAnswer(isAnswer: boolean): void {
    this.#retryAt = isAnswer ? -Infinity : this.#clock.monotonic() + retryIntervalMs
    if (isAnswer !== this.#isAway) return
    this.#isAway = !isAnswer
    if (isAnswer) this.#log.info({}, 'shared rate limits are in use again')
    else this.#log.warn({}, 'shared rate limits are not in use: Redis does not answer, and each process limits its own calls')
  }
}
