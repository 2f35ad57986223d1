import type { RedisAddress } from '../../config/types.ts'
import type { Clock } from '../../services/clock.ts'
import type { Log } from '../../services/log.ts'
import type { TokenRequest } from '../../services/rate-limits.ts'
import { RemoteRateLimits } from '../../services/remote-rate-limits.ts'
import type { TokenGrant } from '../../services/remote-rate-limits.ts'
import { withTimeoutOr } from '../../util/async.ts'
import { RedisClient } from './redis-client.ts'
import { redisKeys } from './redis-layout.ts'
import { takeTokens } from './redis-scripts.ts'

/** A call waits so long for Redis, unless another time is given. */
const defaultTimeoutMs = 50

/** The first call waits for the connection to be made: without Redis, each process would let a burst through. */
const connectTimeoutMs = 500

/** Once in a while Redis is late, and to connect to it may take longer than a call waits. */
const minLoggedFailures = 2

/** The buckets of all gateways that share a Redis. Connects with the first call that has a limit. */
export class RedisRateLimits extends RemoteRateLimits {
  readonly #source: RedisTokens

  constructor(address: RedisAddress, clock: Clock, log: Log, timeoutMs = defaultTimeoutMs) {
    const source = new RedisTokens(address, clock, log, timeoutMs)
    super(clock, source.request)
    this.#source = source
  }

  close(): Promise<void> {
    return this.#source.close()
  }
}

class RedisTokens {
  readonly #clock: Clock
  readonly #log: Log
  readonly #redis: RedisClient
  readonly #timeoutMs: number
  /** It has been, at least once. */
  #isConnected = false
  #opening: Promise<void> | undefined
  #failureCount = 0

  constructor(address: RedisAddress, clock: Clock, log: Log, timeoutMs: number) {
    this.#timeoutMs = timeoutMs
    this.#clock = clock
    this.#log = log
    this.#redis = new RedisClient(address, clock, { retryInitialConnect: true })
  }

  readonly request = async (request: TokenRequest, most: number): Promise<TokenGrant | undefined> => {
    const timeoutMs = this.#isConnected ? this.#timeoutMs : Math.max(this.#timeoutMs, connectTimeoutMs)
    const grant = await withTimeoutOr(this.#clock, timeoutMs, this.#take(request, most), () => undefined).catch(() => undefined)
    this.#recordAnswer(grant !== undefined)
    return grant
  }

  close(): Promise<void> {
    return this.#redis.close()
  }

  async #take({ bucket, rate: { perSecond, burst }, tokens }: TokenRequest, most: number): Promise<TokenGrant> {
    // Rejects at close() only.
    await (this.#opening ??= this.#redis.open().catch(() => undefined))
    this.#isConnected = true
    const reply = await this.#redis.runScript(takeTokens, [redisKeys.tokens(bucket)], [perSecond, burst, tokens, most])
    const [granted, waitMs, left] = (reply as readonly string[]).map(Number) as [number, number, number] // as the script promises
    const state = { remaining: Math.max(0, Math.floor(left)), resetsInMs: ((burst - left) / perSecond) * 1000 }
    return { granted, waitMs, state }
  }

  #recordAnswer(isAnswer: boolean): void {
    const failuresBefore = this.#failureCount
    this.#failureCount = isAnswer ? 0 : failuresBefore + 1
    if (isAnswer && failuresBefore >= minLoggedFailures) this.#log.info({}, 'shared rate limits are in use again')
    if (this.#failureCount === minLoggedFailures)
      this.#log.warn({}, 'shared rate limits are not in use: Redis does not answer, and each process limits its own calls')
  }
}
