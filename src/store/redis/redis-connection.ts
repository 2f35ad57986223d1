import { RESP_TYPES, createClient } from '@redis/client'
import type { Secret } from '../../plugin/secret.ts'
import { systemClock } from '../../services/clock.ts'
import type { Clock, Timer } from '../../services/clock.ts'
import { TimeoutError, withTimeout } from '../../util/with-timeout.ts'
import { createSemaphore } from '../../util/semaphore.ts'
import { StoreError, storeTimeoutMs } from '../store.ts'
import type { Script } from './redis-scripts.ts'

/**
 * A connection to Redis that mends itself. While there is none, a command fails at once; one that was sent and not
 * answered fails too, and is not sent again. Whatever fails is a StoreFault that names host and port and nothing else.
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
  #isClosed = false

  /**
   * A patient one waits for a Redis that is not there yet. `onReady` is called after each time that it connected,
   * `onTrouble` when it breaks or cannot: each command that fails says so itself.
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

  /** Rejects with StoreFault when Redis cannot be reached, or wants other credentials. */
  async open(): Promise<void> {
    // Not the client's own: closed while a ping is under way, it would go on with it for ever. As it is about a socket, the
    // system's clock counts.
    this.#pingTimer = systemClock.every(pingIntervalMs, () => void this.#ping())
    try {
      await this.#client.connect()
      this.#retriesInitialConnect = true
    } catch (cause) {
      this.#isClosed = true
      this.#pingTimer.cancel()
      throw this.#storeError(errorMessage(cause), cause)
    }
  }

  /** Runs the script as one step. Redis forgets scripts when it starts, and is then told the text again. */
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

  /** The same for words that are bytes, and for an answer that is. */
  sendBinaryCommand(...args: readonly (string | Buffer)[]): Promise<Buffer> {
    // A text comes as bytes when it is asked for so; whoever calls knows that the command gives a text.
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
      const reason = client === this.#client ? errorMessage(cause) : new TimeoutError(storeTimeoutMs).message
      // A primary that became a replica: the name may lead to the new one by now.
      if (cause instanceof TimeoutError || reason.startsWith('READONLY')) this.#reconnect(client)
      throw this.#storeError(reason, cause)
    }
  }

  /**
   * Holds over breaks, once it has come through, when this resolves; it does so too when it cannot. The same `hear` is
   * never called twice for one message.
   */
  async subscribe(channel: string, onMessage: (message: string) => void): Promise<void> {
    await this.#client.subscribe(channel, onMessage).catch(noop)
  }

  /**
   * Waits for the commands that were given, as long as for any. Safe twice. The client's own close() would not notice that
   * the connection breaks meanwhile, and wait for answers that cannot come any more.
   */
  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#pingTimer?.cancel()
    await withTimeout(this.#clock, storeTimeoutMs, Promise.allSettled(this.#pending)).catch(noop)
    this.#client.destroy()
  }

  async #ping(): Promise<void> {
    if (this.#client.isReady) await this.#client.sendCommand(['PING']).catch(noop)
  }

  /** Gives up what hangs, commands in flight with it: a new connection comes sooner than an answer on the old one. */
  #reconnect(unresponsive: Client): void {
    if (this.#isClosed || unresponsive !== this.#client) return
    this.#client = this.#createClient()
    unresponsive.destroy()
    this.#client.connect().catch(noop)
  }

  #storeError(reason: string, cause: unknown): StoreError {
    return new StoreError(`cannot use redis at ${this.#address.url}: ${reason}`, { cause })
  }

  #createClient(): Client {
    const client: Client = createRedisClient(
      this.#address,
      retries => this.#retriesInitialConnect && isInUse() && reconnectDelayMs(retries),
    )
    // One that is given up while it waits to connect again would go on for ever.
    const isInUse = () => !this.#isClosed && client === this.#client
    client.on('error', (error: unknown) => this.#onError(errorMessage(error)))
    client.on('ready', this.#onReady)
    return client
  }
}

type Client = ReturnType<typeof createRedisClient>

/** The URL may hold a password; printed, it shows host and port. */
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
    // HELLO, which version 3 begins with, is unknown to Redis 5; and it would answer with the password in its error.
    RESP: 2,
    disableOfflineQueue: true,
    // Would only count for commands that are not sent yet.
    commandOptions: { timeout: 0 },
    socket: { connectTimeout: 500, socketTimeout: 2_000, reconnectStrategy },
  })

/** Twice as long each time, up to 0.4 s; then up to a quarter more, so that not all processes come at once. */
const reconnectDelayMs = (retries: number): number => Math.min(400, 25 * 2 ** Math.min(retries, 4)) * (1 + Math.random() / 4)

/** Commands that are under way at once: a fraction of what Redis answers within a second. The rest waits in line. */
const maxConcurrentCommands = 1_000

/** A ping each second, and nothing for two: that connection is dead, though TCP may not know for minutes. */
const pingIntervalMs = 1_000

const noop = (): void => undefined

/** An attempt on several addresses of a name has no message of its own. */
const errorMessage = (error: unknown): string => {
  if (error instanceof AggregateError) return errorMessage(error.errors[0])
  return error instanceof Error ? error.message : String(error)
}
