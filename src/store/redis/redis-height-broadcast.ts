import { randomBytes } from 'node:crypto'
import type { RedisAddress } from '../../config/types.ts'
import type { Clock } from '../../services/clock.ts'
import type { HeightListener, HeightBroadcast, HeightBroadcastsOf } from '../../services/chain-heads/index.ts'
import { RedisConnection } from './redis-connection.ts'
import { heightsChannel, redisKeys } from './redis-layout.ts'
import { lowerHeight, raiseHeight } from './redis-scripts.ts'

/** ms for which a height is kept that nobody raises: callers have long forgotten it. */
const heightTtlMs = 600_000

/** The heights that gateways on other machines tell callers. */
export interface HeightBroadcasts {
  readonly heightBroadcastsOf: HeightBroadcastsOf
  close(): Promise<void>
}

/**
 * Heights over Redis, on two connections of its own that are opened when the first network is. Nobody ever waits for it:
 * what Redis does not take is dropped, and told anew once it is back, as is what was missed meanwhile.
 */
export const openRedisHeightBroadcasts = (address: RedisAddress, clock: Clock): HeightBroadcasts => {
  const networks = new Map<string, RedisHeightBroadcast>()
  let connections: { readonly publisher: RedisConnection; readonly subscriber: RedisConnection } | undefined

  /** Redis tells us our own words too, perhaps when they are not true any more. */
  const senderId = randomBytes(8).toString('hex')

  const handleMessage = (message: string): void => {
    const [, height, sender, network = ''] = /^(\d{1,16}) (\w+) (.+)$/.exec(message) ?? []
    if (sender !== senderId) networks.get(network)?.handlePeerHeight(Number(height))
  }
  const connect = () => {
    const publisher: RedisConnection = new RedisConnection(address, clock, {
      retryInitialConnect: true,
      onReady: () => networks.forEach(network => network.resync()),
    })
    const subscriber: RedisConnection = new RedisConnection(address, clock, {
      retryInitialConnect: true,
      onReady: () => {
        // Said anew each time, because the first time may have been cut short.
        void subscriber.subscribe(heightsChannel, handleMessage).then(() => networks.forEach(network => network.resync()))
      },
    })
    // Nothing but close() ends their patience.
    for (const connection of [publisher, subscriber]) connection.open().catch(() => undefined)
    return { publisher, subscriber }
  }
  return {
    heightBroadcastsOf(name, chainId) {
      connections ??= connect()
      const network = `${name}:${chainId}`
      const broadcast = new RedisHeightBroadcast(network, senderId, connections.publisher)
      networks.set(network, broadcast)
      return [broadcast]
    },
    async close() {
      await Promise.all([connections?.publisher.close(), connections?.subscriber.close()])
    },
  }
}

class RedisHeightBroadcast implements HeightBroadcast {
  readonly #network: string
  readonly #senderId: string
  readonly #connection: RedisConnection
  #listener: HeightListener = height => height
  /** What callers are told here, and the greatest that Redis is known to have. */
  #height = 0
  #storedHeight = 0
  /** Something is to be said, or asked for, beyond what is under way. */
  #isPending = false
  #isSending = false

  constructor(network: string, senderId: string, connection: RedisConnection) {
    this.#network = network
    this.#senderId = senderId
    this.#connection = connection
  }

  raise(height: number): undefined {
    this.#height = height
    if (height > this.#storedHeight) this.#publish()
  }

  lower(height: number): void {
    this.#height = this.#storedHeight = height
    void this.#connection.runScript(lowerHeight, [redisKeys.height(this.#network)], [height]).catch(() => undefined)
  }

  subscribe(listener: HeightListener): void {
    this.#listener = listener
  }

  /** Others tell this height. An answer on one connection may have been overtaken by news on the other. */
  handlePeerHeight(height: number): void {
    if (height < this.#storedHeight) return
    this.#storedHeight = height
    if (height > this.#height) void this.#listener(height)
  }

  /** Redis may have lost what it had, and others may have told it more. */
  resync(): void {
    this.#storedHeight = 0
    this.#publish()
  }

  /** The greatest height there is; `sent` was ours, and may have been taken back since. */
  #handleStoredHeight(height: number, sent: number): void {
    if (height > sent) this.handlePeerHeight(height)
    else if (sent === this.#height) this.#storedHeight = Math.max(this.#storedHeight, sent)
  }

  /** One message at a time, the newest height in it: a Redis that is slow gets fewer. */
  #publish(): void {
    this.#isPending = true
    if (!this.#isSending) void this.#publishPending()
  }

  async #publishPending(): Promise<void> {
    this.#isSending = true
    while (this.#isPending) {
      this.#isPending = false
      const sent = this.#height
      const args = [sent, heightTtlMs, heightsChannel, `${this.#senderId} ${this.#network}`]
      // While Redis is away nothing is due: sync() comes when it is back.
      await this.#connection.runScript(raiseHeight, [redisKeys.height(this.#network)], args).then(
        height => this.#handleStoredHeight(Number(height), sent),
        () => undefined,
      )
    }
    this.#isSending = false
  }
}
