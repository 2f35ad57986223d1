import { ClientOfflineError, RESP_TYPES, createClient } from '@redis/client'
import type { Secret } from '../../plugin/secret.ts'
import { systemClock } from '../../services/clock.ts'
import type { Clock, Timer } from '../../services/clock.ts'
import { Backoff, TimeoutError, withTimeout, createSemaphore } from '../../util/async.ts'
import { StoreError, storeTimeoutMs } from '../store.ts'
import { errorMessage, withFix, withoutScript } from './redis-errors.ts'
import type { Script } from './redis-scripts.ts'

/**
 * A connection to Redis that reconnects. While it is disconnected, a command fails at once; a command without a reply fails
 * when the connection is lost, and is not sent again. Every error is a StoreError that names host and port and nothing else.
 */
export class RedisConnection {
  readonly #address: ConnectionAddress
  readonly #clock: Clock
  readonly #onReady: () => void
  readonly #onError: (cause: string) => void
  readonly #semaphore = createSemaphore(maxConcurrentCommands)
  readonly #pending = new Set<Promise<unknown>>()
  #client: Client
  #pingTimer: Timer | undefined
  #retriesInitialConnect: boolean
  /** Why the client is not connected, as far as it has said. */
  #lastConnectError: string | undefined
  #pingCount = 0
  #isClosed = false

  /**
   * With `retryInitialConnect` open() waits for a Redis that is not reachable yet. `onReady` is called after each connect,
   * `onError` when the connection is lost or cannot be made; commands that fail report their error themselves.
   */
  constructor(
    address: ConnectionAddress,
    clock: Clock,
    { retryInitialConnect = false, onReady = noop, onError = noop }: ConnectionOptions = {},
  ) {
    this.#address = address
    this.#clock = clock
    this.#retriesInitialConnect = retryInitialConnect
    this.#onReady = onReady
    this.#onError = onError
    this.#client = this.#createClient()
  }

  /** Rejects with StoreError when Redis is unreachable, or refuses the credentials. */
  async open(): Promise<void> {
    // Not the client's own ping timer: closed during a ping, it would ping for ever. A socket lives by the system clock, also
    // in tests.
    this.#pingTimer = systemClock.every(pingIntervalMs, () => void this.#ping())
    try {
      await this.#client.connect()
      this.#retriesInitialConnect = true
    } catch (cause) {
      this.#isClosed = true
      this.#pingTimer.cancel()
      throw this.#storeError(errorMessage(cause), cause, { isFirstConnect: true })
    }
  }

  /** While it is not, commands fail at once, and are not sent. */
  get isReady(): boolean {
    return !this.#isClosed && this.#client.isReady
  }

  /** Redis forgets scripts when it restarts: then the text is sent again. */
  async runScript(script: Script, keys: readonly string[], args: readonly (string | number)[]): Promise<unknown> {
    const scriptArgs = [String(keys.length), ...keys, ...args.map(String)]
    try {
      return await this.sendCommand('EVALSHA', script.sha, ...scriptArgs)
    } catch (error) {
      if (!(error instanceof StoreError && errorMessage(error.cause).startsWith('NOSCRIPT'))) throw error
      return this.sendCommand('EVAL', script.text, ...scriptArgs)
    }
  }

  sendCommand(...args: readonly string[]): Promise<unknown> {
    return this.#sendLimited(args, {})
  }

  /** For arguments and a reply in bytes. */
  sendBinaryCommand(...args: readonly (string | Buffer)[]): Promise<Buffer> {
    // A bulk string is mapped to a Buffer; the caller knows that the command returns one.
    return this.#sendLimited(args, binaryReply) as Promise<Buffer>
  }

  async #sendLimited(args: readonly (string | Buffer)[], options: SendOptions): Promise<unknown> {
    if (this.#isClosed) throw new StoreError('the store is closed')
    const reply = this.#semaphore(() => this.#sendNow(args, options))
    this.#pending.add(reply)
    return reply.finally(() => this.#pending.delete(reply))
  }

  async #sendNow(args: readonly (string | Buffer)[], options: SendOptions): Promise<unknown> {
    const client = this.#client
    try {
      return await withTimeout(this.#clock, storeTimeoutMs, client.sendCommand([...args], options))
    } catch (cause) {
      const reason = client === this.#client ? this.#reasonOf(cause) : new TimeoutError(storeTimeoutMs).message
      // READONLY: the primary became a replica, and the name may resolve to the new primary.
      if (cause instanceof TimeoutError || withoutScript(reason).startsWith('READONLY')) this.#reconnect(client)
      throw this.#storeError(reason, cause)
    }
  }

  /**
   * Resolves when the subscription is in force, which the client renews after each reconnect, or when it failed. The same
   * `onMessage` is never called twice for one message.
   */
  async subscribe(channel: string, onMessage: (message: string, channel: string) => void): Promise<void> {
    await this.#client.subscribe(channel, onMessage).catch(noop)
  }

  /**
   * Waits for commands in flight, up to the timeout of a command. Safe twice. The client's own close() would not notice that
   * the connection is lost meanwhile, and wait for ever.
   */
  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#pingTimer?.cancel()
    await withTimeout(this.#clock, storeTimeoutMs, Promise.allSettled(this.#pending)).catch(noop)
    this.#client.destroy()
  }

  /** A reply that is not that of the ping belongs to another command: so would all that follow on this connection. */
  async #ping(): Promise<void> {
    const client = this.#client
    if (!client.isReady) return
    const text = `tollgate ${(this.#pingCount += 1)}`
    const reply = await client.sendCommand(['PING', text]).catch(() => text)
    if (reply !== text) this.#reconnect(client)
  }

  /** Drops a connection that hangs, with its commands in flight: a new connection is faster than a reply on the old one. */
  #reconnect(unresponsive: Client): void {
    if (this.#isClosed || unresponsive !== this.#client) return
    this.#client = this.#createClient()
    unresponsive.destroy()
    this.#client.connect().catch(noop)
  }

  /** A command that was not sent says that the client is offline, and not why. */
  #reasonOf(cause: unknown): string {
    return (cause instanceof ClientOfflineError ? this.#lastConnectError : undefined) ?? errorMessage(cause)
  }

  #storeError(reason: string, cause: unknown, when: Parameters<typeof withFix>[1] = {}): StoreError {
    return new StoreError(`cannot use redis at ${this.#address.url}: ${withFix(reason, when)}`, { cause })
  }

  #createClient(): Client {
    const backoff = new Backoff(reconnectBackoff)
    const client: Client = createRedisClient(this.#address, retries => {
      if (!this.#retriesInitialConnect || !isInUse()) return false
      if (retries === 0) backoff.reset()
      return withJitter(backoff.next())
    })
    // A client that was dropped while it waited to reconnect would go on for ever.
    const isInUse = () => !this.#isClosed && client === this.#client
    client.on('error', (error: unknown) => {
      this.#lastConnectError = errorMessage(error)
      this.#onError(this.#lastConnectError)
    })
    client.on('ready', this.#onReady)
    return client
  }
}

type Client = ReturnType<typeof createRedisClient>

/** The URL may contain a password; it prints as host and port. */
interface ConnectionAddress {
  readonly url: Secret
}

interface ConnectionOptions {
  readonly retryInitialConnect?: boolean
  readonly onReady?: () => void
  readonly onError?: (cause: string) => void
}

type SendOptions = NonNullable<Parameters<Client['sendCommand']>[1]>

const binaryReply: SendOptions = { typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer } }

const createRedisClient = (address: ConnectionAddress, reconnectStrategy: (retries: number) => number | false) =>
  createClient({
    url: address.url.reveal(),
    name: 'tollgate',
    // RESP 3 begins with HELLO, which Redis 5 does not know: its error would repeat the password.
    RESP: 2,
    disableOfflineQueue: true,
    // The client's timeout covers only commands that are not sent yet; withTimeout() covers all.
    commandOptions: { timeout: 0 },
    socket: { connectTimeout: connectTimeoutMs, socketTimeout: idleSocketTimeoutMs, reconnectStrategy },
  })

/** A first connection is tried once: less would fail on a machine that is busy for a second. */
const connectTimeoutMs = 2_000

const reconnectBackoff = { minMs: 25, maxMs: 400 }

/** Up to a quarter more, so that not all processes reconnect at once. */
const withJitter = (delayMs: number): number => delayMs * (1 + Math.random() / 4)

/** A fraction of what Redis answers within a second. More commands wait in a queue. */
const maxConcurrentCommands = 1_000

/** A connection without a reply to two pings is dead, though TCP may not notice for minutes. */
const pingIntervalMs = 1_000
const idleSocketTimeoutMs = 2_000

const noop = (): void => undefined

/** Names and values of an HGETALL reply, which lists them in turn. */
export const parsePairs = (reply: unknown): readonly (readonly [name: string, value: string])[] => {
  const items = reply as readonly string[] // as Redis promises
  return Array.from({ length: items.length / 2 }, (_, i) => [items[2 * i] ?? '', items[2 * i + 1] ?? ''])
}
