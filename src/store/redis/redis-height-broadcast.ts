import { randomBytes } from 'node:crypto'
import type { RedisAddress } from '../../config/types.ts'
import type { HeightListener, HeightBroadcast, HeightBroadcastsOf } from '../../services/chain-heads/index.ts'
import type { Clock } from '../../services/clock.ts'
import { RedisClient } from './redis-client.ts'
import { RedisConnection } from './redis-connection.ts'
import { heightsChannelOf, redisKeys } from './redis-layout.ts'
import { lowerHeight, raiseHeight } from './redis-scripts.ts'

/** A height that no gateway raises is removed from Redis after this time: callers rely on it no longer. */
const heightTtlMs = 600_000

/** Broadcasts between gateways that share one Redis. */
export interface HeightBroadcasts {
  readonly heightBroadcastsOf: HeightBroadcastsOf
  close(): Promise<void>
}

/**
 * Shares reported heights over Redis, on two connections of its own that are opened with the first network. No call ever waits
 * for them. What Redis does not accept is dropped. After each reconnect the heights are published again, and the heights that
 * were missed are read.
 */
export const openRedisHeightBroadcasts = (address: RedisAddress, clock: Clock): HeightBroadcasts => {
  /** Only these receive heights, and are published again after a reconnect. Two of one network while a reload replaces its tracker. */
  const subscribed = new Set<RedisHeightBroadcast>()
  let connections: { readonly publisher: RedisClient; readonly subscriber: RedisConnection } | undefined

  /** Redis delivers a gateway's own messages to it too, perhaps when the height has gone back since. */
  const senderId = randomBytes(8).toString('hex')
  const channel = heightsChannelOf(address)

  const handleMessage = (message: string): void => {
    const [, height, sender, network = ''] = /^(\d{1,16}) (\w+) (.+)$/.exec(message) ?? []
    if (sender === senderId) return
    for (const broadcast of subscribed) if (broadcast.network === network) broadcast.handlePeerHeight(Number(height))
  }
  const resync = (): void => subscribed.forEach(broadcast => broadcast.resync())
  const connect = () => {
    const publisher: RedisClient = new RedisClient(address, clock, {
      retryInitialConnect: true,
      onReady: resync,
    })
    const subscriber: RedisConnection = new RedisConnection(address, clock, {
      retryInitialConnect: true,
      onReady: () => {
        // Subscribed with each connection, because the first subscription may have been interrupted.
        void subscriber.subscribe(channel, handleMessage).then(resync)
      },
    })
    // open() rejects only after close().
    for (const connection of [publisher, subscriber]) connection.open().catch(() => undefined)
    return { publisher, subscriber }
  }
  return {
    heightBroadcastsOf(name, chainId) {
      connections ??= connect()
      return [new RedisHeightBroadcast(`${name}:${chainId}`, { senderId, channel, publisher: connections.publisher, subscribed })]
    },
    async close() {
      await Promise.all([connections?.publisher.close(), connections?.subscriber.close()])
    },
  }
}

interface BroadcastContext {
  readonly senderId: string
  readonly channel: string
  readonly publisher: RedisClient
  readonly subscribed: Set<RedisHeightBroadcast>
}

class RedisHeightBroadcast implements HeightBroadcast {
  readonly network: string
  readonly #context: BroadcastContext
  #listener: HeightListener = () => undefined
  /** The height that this gateway reports. */
  #height = 0
  /** The greatest height that Redis is known to have. */
  #storedHeight = 0
  /** The height is to be published after the script that runs. */
  #isPending = false
  #isPublishing = false

  constructor(network: string, context: BroadcastContext) {
    this.network = network
    this.#context = context
  }

  raise(height: number): undefined {
    this.#height = height
    if (height > this.#storedHeight) this.#publish()
  }

  lower(height: number): void {
    this.#height = this.#storedHeight = height
    void this.#context.publisher.runScript(lowerHeight, [redisKeys.height(this.network)], [height]).catch(() => undefined)
  }

  subscribe(listener: HeightListener): () => void {
    this.#listener = listener
    this.#context.subscribed.add(this)
    return () => {
      if (this.#listener !== listener) return
      this.#context.subscribed.delete(this)
      this.#listener = () => undefined // a script that runs has its reply yet to come
    }
  }

  /** Another gateway reports this height. A script's reply on one connection may be older than a message on the other. */
  handlePeerHeight(height: number): void {
    if (height < this.#storedHeight) return
    this.#storedHeight = height
    if (height > this.#height) this.#listener(height)
  }

  /** After a reconnect Redis may have lost the height, and may have a greater height of another gateway. */
  resync(): void {
    this.#storedHeight = 0
    this.#publish()
  }

  /** `height` is the greatest in Redis. `sent` is what this gateway has published; its height may have gone back since. */
  #handleStoredHeight(height: number, sent: number): void {
    if (height > sent) this.handlePeerHeight(height)
    else if (sent === this.#height) this.#storedHeight = Math.max(this.#storedHeight, sent)
  }

  /** One script at a time, with the newest height: a slow Redis gets fewer of them. */
  #publish(): void {
    this.#isPending = true
    if (!this.#isPublishing) void this.#publishPending()
  }

  async #publishPending(): Promise<void> {
    this.#isPublishing = true
    const { senderId, channel, publisher } = this.#context
    while (this.#isPending) {
      this.#isPending = false
      const sent = this.#height
      const args = [sent, heightTtlMs, channel, `${senderId} ${this.network}`]
      // A failure needs no retry: resync() comes with the next connection.
      await publisher.runScript(raiseHeight, [redisKeys.height(this.network)], args).then(
        height => this.#handleStoredHeight(Number(height), sent),
        () => undefined,
      )
    }
    this.#isPublishing = false
  }
}
