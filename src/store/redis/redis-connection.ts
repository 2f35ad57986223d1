import { ClientOfflineError, ConnectionTimeoutError, RESP_TYPES, createClient } from '@redis/client'
import type { Secret } from '../../plugin/secret.ts'
import { systemClock } from '../../services/clock.ts'
import type { Clock, Timer } from '../../services/clock.ts'
import { Backoff, TimeoutError, createSemaphore, sleep, withTimeout, withTimeoutOr } from '../../util/async.ts'
import { StoreError, storeTimeoutMs } from '../store.ts'
import { SilentConnectionError, errorMessage, withFix, withoutScript } from './redis-errors.ts'
import { createLocator } from './redis-locator.ts'
import type { Locator } from './redis-locator.ts'

/**
 * A connection to one Redis that reconnects, each time at the host that its URL leads to then. While it is disconnected, a command fails at
 * once; a command without a reply fails when the connection is lost, and is not sent again. Every error is a StoreError that names host and
 * port and nothing else.
 */
export class RedisConnection {
  readonly #address: ConnectionAddress
  readonly #locator: Locator
  readonly #clock: Clock
  readonly #onReady: () => void
  readonly #onError: (cause: string) => void
  readonly #semaphore = createSemaphore(maxConcurrentCommands)
  readonly #pending = new Set<Promise<unknown>>()
  /** Undefined while there is none. */
  #client: Client | undefined
  #connecting: Client | undefined
  /** Tells when the primary has been replaced. */
  #sentinels: RedisConnection | undefined
  /** Where the client is connected to. */
  #location: Secret | undefined
  #pingTimer: Timer | undefined
  readonly #retriesInitialConnect: boolean
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
    this.#locator = createLocator(address.url)
    this.#clock = clock
    this.#retriesInitialConnect = retryInitialConnect
    this.#onReady = onReady
    this.#onError = onError
  }

  /** Rejects with StoreError when Redis is unreachable, or refuses the credentials. */
  async open(): Promise<void> {
    // Not the client's own ping timer: closed during a ping, it would ping for ever. A socket lives by the system clock, also
    // in tests.
    this.#pingTimer = systemClock.every(pingIntervalMs, () => void this.#ping())
    try {
      await (this.#retriesInitialConnect ? this.#connectWithRetries() : this.#connectToAny())
    } catch (cause) {
      this.#isClosed = true
      this.#pingTimer.cancel()
      throw this.#storeError(errorMessage(cause), cause, { isFirstConnect: true })
    }
  }

  /** While it is not, commands fail at once, and are not sent. */
  get isReady(): boolean {
    return !this.#isClosed && this.#client?.isReady === true
  }

  async send(args: readonly (string | Buffer)[], options: SendOptions = {}): Promise<unknown> {
    if (this.#isClosed) throw new StoreError('the store is closed')
    const reply = this.#semaphore(() => this.#sendNow(args, options))
    this.#pending.add(reply)
    return reply.finally(() => this.#pending.delete(reply))
  }

  async #sendNow(args: readonly (string | Buffer)[], { binary = false, isAsking = false }: SendOptions): Promise<unknown> {
    const client = this.#client
    try {
      if (client?.isReady !== true) throw new ClientOfflineError()
      if (isAsking) void client.sendCommand(['ASKING']).catch(noop)
      return await withTimeout(this.#clock, storeTimeoutMs, client.sendCommand([...args], binary ? binaryReply : {}))
    } catch (cause) {
      const reason = client === this.#client ? this.#reasonOf(cause) : new TimeoutError(storeTimeoutMs).message
      // READONLY: the primary became a replica, and the URL may lead to the new primary.
      if (cause instanceof TimeoutError || withoutScript(reason).startsWith('READONLY')) this.#reconnect(client)
      throw this.#storeError(reason, cause)
    }
  }

  /** Resolves when the subscription is in force, or when it failed. It ends with the connection: it belongs into `onReady`. */
  async subscribe(channel: string, onMessage: (message: string, channel: string) => void): Promise<void> {
    await this.#client?.subscribe(channel, onMessage).catch(noop)
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
    await this.#sentinels?.close()
    this.#client?.destroy()
    this.#connecting?.destroy()
  }

  /** A reply that is not that of the ping belongs to another command: so would all that follow on this connection. */
  async #ping(): Promise<void> {
    const client = this.#client
    if (client?.isReady !== true) return
    const text = `tollgate ${(this.#pingCount += 1)}`
    try {
      const reply: unknown = await withTimeout(systemClock, maxSilenceMs, client.sendCommand(['PING', text]))
      if (reply === text) return
    } catch (error) {
      // Any other error is that of a connection that was lost.
      if (!(error instanceof TimeoutError) || client !== this.#client) return
      this.#reportError(new SilentConnectionError())
    }
    this.#reconnect(client)
  }

  /** Drops a connection that is lost or hangs, with its commands in flight: a new connection is faster than a reply on the old one. */
  #reconnect(lost: Client | undefined): void {
    if (this.#isClosed || lost === undefined || lost !== this.#client) return
    this.#client = undefined
    lost.destroy()
    void this.#connectWithRetries().catch(noop)
  }

  /** Rejects when the connection is closed. */
  async #connectWithRetries(): Promise<void> {
    const backoff = new Backoff(reconnectBackoff)
    for (;;) {
      try {
        return await this.#connect()
      } catch (error) {
        if (this.#isClosed) throw error
        await sleep(systemClock, withJitter(backoff.next()))
      }
    }
  }

  /** Each host of the URL is tried once. Rejects with the error of the last. */
  async #connectToAny(): Promise<void> {
    for (let left = this.#locator.hostCount - 1; ; left -= 1) {
      try {
        return await this.#connect()
      } catch (error) {
        if (left === 0) throw error
      }
    }
  }

  /** One attempt, at the host that the URL leads to now. */
  async #connect(): Promise<void> {
    try {
      const url = await this.#locator.locate()
      if (this.#isClosed) throw new StoreError('the store is closed')
      this.#client = await this.#connectTo(url)
      this.#location = url
      this.#watchSentinels()
    } catch (error) {
      this.#reportError(error)
      throw error
    }
    this.#onReady()
  }

  #watchSentinels(): void {
    const url = this.#locator.sentinels()
    if (url === undefined || this.#sentinels !== undefined) return
    const onReady = () => {
      // The Sentinel that leads the failover names the new primary seconds before it says that it has switched.
      for (const event of ['+promoted-slave', '+switch-master']) void sentinels.subscribe(event, () => void this.#leaveReplaced())
      // What was published before was missed.
      void this.#leaveReplaced()
    }
    const sentinels = new RedisConnection({ url }, this.#clock, { retryInitialConnect: true, onReady })
    this.#sentinels = sentinels
    // Rejects at close() only.
    sentinels.open().catch(noop)
  }

  async #leaveReplaced(): Promise<void> {
    const client = this.#client
    if (this.#location === undefined || (await this.#locator.leadsTo(this.#location).catch(() => true))) return
    this.#reportError(new StoreError('the primary was replaced'))
    this.#reconnect(client)
  }

  async #connectTo(url: Secret): Promise<Client> {
    const client = (this.#connecting = createRedisClient(url))
    client.on('error', (error: unknown) => {
      this.#reportError(error)
      this.#reconnect(client)
    })
    let isConnected = false
    client.once('connect', () => {
      isConnected = true
    })
    const connecting = client.connect()
    try {
      await withTimeoutOr(systemClock, connectTimeoutMs, connecting, () => {
        throw isConnected ? new SilentConnectionError() : new ConnectionTimeoutError()
      })
      if (!(await this.#locator.leadsTo(url))) throw new StoreError('the primary was replaced')
      if (!client.isReady) throw new ClientOfflineError()
      return client
    } catch (error) {
      client.destroy()
      // It has no socket to destroy until it is connected, which may come late.
      void connecting.then(() => client.destroy(), noop)
      throw error
    }
  }

  #reportError(error: unknown): void {
    this.#lastConnectError = errorMessage(error)
    this.#onError(this.#lastConnectError)
  }

  /** A command that was not sent says that the client is offline, and not why. */
  #reasonOf(cause: unknown): string {
    return (cause instanceof ClientOfflineError ? this.#lastConnectError : undefined) ?? errorMessage(cause)
  }

  #storeError(reason: string, cause: unknown, when: Parameters<typeof withFix>[1] = {}): StoreError {
    return new StoreError(`cannot use redis at ${this.#address.url}: ${withFix(reason, when)}`, { cause })
  }
}

type Client = typeof clientTemplate

/** The URL may contain a password; it prints as host and port. */
export interface ConnectionAddress {
  readonly url: Secret
}

export interface ConnectionOptions {
  readonly retryInitialConnect?: boolean
  readonly onReady?: () => void
  readonly onError?: (cause: string) => void
}

interface SendOptions {
  /** The reply is a Buffer. */
  readonly binary?: boolean
  /** Of a cluster: the node has been named by another one, which still has the slot. */
  readonly isAsking?: boolean
}

const binaryReply = { typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer } }

/** A client that does not reconnect: its connection was lost when it has emitted an error. */
const createRedisClient = (url: Secret): Client =>
  clientTemplate.duplicate({
    url: url.reveal(),
    // The timers of a socket count time in which this process did not run, as withTimeout() does not: a connection to a healthy Redis would be lost.
    socket: { connectTimeout: 3 * connectTimeoutMs, reconnectStrategy: false },
  })

/** Never connects. To make a client takes 15 ms or more, as its commands are added then; a copy takes 0.2 ms. */
const clientTemplate = createClient({
  name: 'tollgate',
  // RESP 3 begins with HELLO, which Redis 5 does not know: its error would repeat the password.
  RESP: 2,
  // CLIENT SETINFO: a right more, and two commands with each connection.
  disableClientInfo: true,
  disableOfflineQueue: true,
  // The client's timeout covers only commands that are not sent yet; withTimeout() covers all.
  commandOptions: { timeout: 0 },
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
const maxSilenceMs = 2 * pingIntervalMs

const noop = (): void => undefined

/** Names and values of an HGETALL reply, which lists them in turn. */
export const parsePairs = (reply: unknown): readonly (readonly [name: string, value: string])[] => {
  const items = reply as readonly string[] // as Redis promises
  return Array.from({ length: items.length / 2 }, (_, i) => [items[2 * i] ?? '', items[2 * i + 1] ?? ''])
}
