import { randomBytes } from 'node:crypto'
import type { RedisAddress } from '../../config/types.ts'
import type { Clock } from '../../services/clock.ts'
import type { PeerHandler, PeerReply, Peers } from '../../services/peers.ts'
import { withTimeoutOr } from '../../util/async.ts'
import type { Json } from '../../util/json.ts'
import { RedisConnection } from './redis-connection.ts'
import { peerChannelPrefix, redisKeys } from './redis-layout.ts'
import { putPeerReply, takePeerReply } from './redis-scripts.ts'

/** A process of another gateway that does not answer in time is busy or stopped. */
const requestTimeoutMs = 2_000
/** The first message waits so long for the connection. */
const connectTimeoutMs = 500
/** Longer than any request waits. */
const replyTtlMs = 10_000

/**
 * Requests between processes of gateways that share a Redis. A request is a message to the channel of a process: Redis says whether
 * anybody has received it. The answer is a key, which a message announces: a long answer fits in a key, but not in the queue of messages
 * that Redis keeps for a process, and a key waits for a process that reconnects. One connection receives, from the first serve() on;
 * another one sends, from the first message on.
 */
export class RedisPeers {
  readonly #address: RedisAddress
  readonly #clock: Clock
  readonly #handlers = new Map<string, PeerHandler>()
  /** By request: to be called when it is answered. */
  readonly #pending = new Map<string, () => void>()
  #subscriber: RedisConnection | undefined
  #publisher: { readonly redis: RedisConnection; readonly opened: Promise<void> } | undefined

  constructor(address: RedisAddress, clock: Clock) {
    this.#address = address
    this.#clock = clock
  }

  /** The peers of a network in this gateway, and behind them those of the other gateways. */
  extend(local: Peers): Peers {
    return {
      name: local.name,
      request: async (peer, payload) => {
        const reply = await local.request(peer, payload)
        return reply === 'absent' ? this.#request(local.name, peer, payload).catch(() => 'late' as const) : reply
      },
      serve: handler => {
        const endLocal = local.serve(handler)
        this.#serve(local.name, handler)
        return () => {
          endLocal()
          if (this.#handlers.get(local.name) === handler) this.#endServing(local.name)
        }
      },
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#subscriber?.close(), this.#publisher?.redis.close()])
  }

  #serve(name: string, handler: PeerHandler): void {
    this.#handlers.set(name, handler)
    this.#subscriber ??= this.#openSubscriber()
    void this.#subscriber.subscribe(peerChannelPrefix + name, this.#onMessage)
  }

  #endServing(name: string): void {
    this.#handlers.delete(name)
    void this.#subscriber?.unsubscribe(peerChannelPrefix + name)
  }

  #openSubscriber(): RedisConnection {
    const onReady = () => {
      // With each connection, because the first SUBSCRIBE may have been lost.
      for (const name of this.#handlers.keys()) void redis.subscribe(peerChannelPrefix + name, this.#onMessage)
    }
    const redis: RedisConnection = new RedisConnection(this.#address, this.#clock, { retryInitialConnect: true, onReady })
    // Rejects at close() only.
    redis.open().catch(() => undefined)
    return redis
  }

  async #openPublisher(): Promise<RedisConnection> {
    if (this.#publisher === undefined) {
      const redis = new RedisConnection(this.#address, this.#clock, { retryInitialConnect: true })
      this.#publisher = { redis, opened: redis.open().catch(() => undefined) }
    }
    const { redis, opened } = this.#publisher
    await withTimeoutOr(this.#clock, connectTimeoutMs, opened, () => undefined)
    return redis
  }

  async #request(from: string, peer: string, payload: Json): Promise<PeerReply> {
    const redis = await this.#openPublisher()
    // What has not been sent is not handled; after an error of a command it may have been.
    if (!redis.isReady) return 'absent'
    const id = randomBytes(16).toString('hex')
    const answered = new Promise<void>(resolve => this.#pending.set(id, resolve))
    try {
      const message = `${id} ${from} ${JSON.stringify(payload)}`
      if ((await redis.sendCommand('PUBLISH', peerChannelPrefix + peer, message)) === 0) return 'absent'
      await withTimeoutOr(this.#clock, requestTimeoutMs, answered, () => undefined)
      // Also when nothing has announced the answer: messages to a process that reconnects are lost.
      const text = (await redis.runScript(takePeerReply, [redisKeys.peerReply(id)], [])) as string | null
      if (text === null) return 'late'
      return text === '' ? 'absent' : { payload: JSON.parse(text) as Json } // written by #answer()
    } finally {
      this.#pending.delete(id)
    }
  }

  readonly #onMessage = (message: string, channel: string): void => {
    const [, id = '', from, payload = ''] = /^(\w+)(?: (\w+) (.+))?$/s.exec(message) ?? []
    const handler = this.#handlers.get(channel.slice(peerChannelPrefix.length))
    if (from === undefined) this.#pending.get(id)?.()
    else if (handler !== undefined) void this.#answer(handler, id, from, JSON.parse(payload) as Json) // written by #request()
  }

  async #answer(handler: PeerHandler, id: string, from: string, payload: Json): Promise<void> {
    const answer = await handler.answer(payload)
    const text = answer === undefined ? '' : JSON.stringify(answer)
    try {
      const redis = await this.#openPublisher()
      await redis.runScript(putPeerReply, [redisKeys.peerReply(id)], [text, replyTtlMs, peerChannelPrefix + from, id])
    } catch {
      handler.onUnsent(payload)
    }
  }
}
