import { RESP_TYPES, createClient } from '@redis/client'
import type { Secret } from '../../secret.ts'
import { systemClock } from '../../services/clock.ts'
import type { Clock, Timer } from '../../services/clock.ts'
import { Late, inTime } from '../../services/in-time.ts'
import { openQueue } from '../../services/queue.ts'
import { StoreFault } from '../store.ts'
import type { Script } from './scripts.ts'

/**
 * A connection to Redis that mends itself. While there is none, a command fails at once; one that was sent and not
 * answered fails too, and is not sent again. Whatever fails is a StoreFault that names host and port and nothing else.
 */
export class Connection {
  readonly #address: Address
  readonly #clock: Clock
  readonly #onReady: () => void
  readonly #onTrouble: (cause: string) => void
  readonly #queue = openQueue(mostAtOnce)
  readonly #underWay = new Set<Promise<unknown>>()
  #client: Client
  #pulse: Timer | undefined
  #isPatient: boolean
  #isClosed = false

  /**
   * A patient one waits for a Redis that is not there yet. `onReady` is called after each time that it connected,
   * `onTrouble` when it breaks or cannot: each command that fails says so itself.
   */
  constructor(address: Address, clock: Clock, { isPatient = false, onReady = ignore, onTrouble = ignore }: Hooks = {}) {
    this.#address = address
    this.#clock = clock
    this.#isPatient = isPatient
    this.#onReady = onReady
    this.#onTrouble = onTrouble
    this.#client = this.#create()
  }

  /** Rejects with StoreFault when Redis cannot be reached, or wants other credentials. */
  async open(): Promise<void> {
    // Not the client's own: closed while a ping is under way, it would go on with it for ever. As it is about a socket, the
    // system's clock counts.
    this.#pulse = systemClock.every(pulse, () => void this.#ping())
    try {
      await this.#client.connect()
      this.#isPatient = true
    } catch (cause) {
      this.#isClosed = true
      this.#pulse.cancel()
      throw this.#fault(reasonOf(cause), cause)
    }
  }

  /** Runs the script as one step. Redis forgets scripts when it starts, and is then told the text again. */
  async run(script: Script, keys: readonly string[], words: readonly (string | number)[]): Promise<unknown> {
    const rest = [String(keys.length), ...keys, ...words.map(String)]
    try {
      return await this.send('EVALSHA', script.sha, ...rest)
    } catch (error) {
      if (!(error instanceof StoreFault && reasonOf(error.cause).startsWith('NOSCRIPT'))) throw error
      return this.send('EVAL', script.text, ...rest)
    }
  }

  send(...words: readonly string[]): Promise<unknown> {
    return this.#sendInTurn(words, {})
  }

  /** The same for words that are bytes, and for an answer that is. */
  exchange(...words: readonly (string | Buffer)[]): Promise<Buffer> {
    // A text comes as bytes when it is asked for so; whoever calls knows that the command gives a text.
    return this.#sendInTurn(words, asBytes) as Promise<Buffer>
  }

  async #sendInTurn(words: readonly (string | Buffer)[], options: SendOptions): Promise<unknown> {
    if (this.#isClosed) throw new StoreFault('the store is closed')
    const work = this.#queue(() => this.#send(words, options))
    this.#underWay.add(work)
    return work.finally(() => this.#underWay.delete(work))
  }

  async #send(words: readonly (string | Buffer)[], options: SendOptions): Promise<unknown> {
    const client = this.#client
    try {
      return await inTime(this.#clock, client.sendCommand([...words], options))
    } catch (cause) {
      const reason = client === this.#client ? reasonOf(cause) : new Late().message
      // A primary that became a replica: the name may lead to the new one by now.
      if (cause instanceof Late || reason.startsWith('READONLY')) this.#renew(client)
      throw this.#fault(reason, cause)
    }
  }

  /**
   * Holds over breaks, once it has come through, when this resolves; it does so too when it cannot. The same `hear` is
   * never called twice for one message.
   */
  async subscribe(channel: string, hear: (message: string) => void): Promise<void> {
    await this.#client.subscribe(channel, hear).catch(ignore)
  }

  /**
   * Waits for the commands that were given, as long as for any. Safe twice. The client's own close() would not notice that
   * the connection breaks meanwhile, and wait for answers that cannot come any more.
   */
  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#pulse?.cancel()
    await inTime(this.#clock, Promise.allSettled(this.#underWay)).catch(ignore)
    this.#client.destroy()
  }

  async #ping(): Promise<void> {
    if (this.#client.isReady) await this.#client.sendCommand(['PING']).catch(ignore)
  }

  /** Gives up what hangs, commands in flight with it: a new connection comes sooner than an answer on the old one. */
  #renew(hanging: Client): void {
    if (this.#isClosed || hanging !== this.#client) return
    this.#client = this.#create()
    hanging.destroy()
    this.#client.connect().catch(ignore)
  }

  #fault(reason: string, cause: unknown): StoreFault {
    return new StoreFault(`cannot use redis at ${this.#address.url}: ${reason}`, { cause })
  }

  #create(): Client {
    const client: Client = makeClient(this.#address, retries => this.#isPatient && isInUse() && waitBefore(retries))
    // One that is given up while it waits to connect again would go on for ever.
    const isInUse = () => !this.#isClosed && client === this.#client
    client.on('error', (error: unknown) => this.#onTrouble(reasonOf(error)))
    client.on('ready', this.#onReady)
    return client
  }
}

type Client = ReturnType<typeof makeClient>

/** The URL may hold a password; printed, it shows host and port. */
interface Address {
  readonly url: Secret
}

interface Hooks {
  readonly isPatient?: boolean
  readonly onReady?: () => void
  readonly onTrouble?: (cause: string) => void
}

type SendOptions = NonNullable<Parameters<Client['sendCommand']>[1]>

const asBytes: SendOptions = { typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer } }

const makeClient = (address: Address, reconnectStrategy: (retries: number) => number | false) =>
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
const waitBefore = (retries: number): number => Math.min(400, 25 * 2 ** Math.min(retries, 4)) * (1 + Math.random() / 4)

/** Commands that are under way at once: a fraction of what Redis answers within a second. The rest waits in line. */
const mostAtOnce = 1_000

/** A ping each second, and nothing for two: that connection is dead, though TCP may not know for minutes. */
const pulse = 1_000

const ignore = (): void => undefined

/** An attempt on several addresses of a name has no message of its own. */
const reasonOf = (error: unknown): string => {
  if (error instanceof AggregateError) return reasonOf(error.errors[0])
  return error instanceof Error ? error.message : String(error)
}
