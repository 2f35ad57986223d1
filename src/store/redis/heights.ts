import { randomBytes } from 'node:crypto'
import type { RedisAddress } from '../../config/types.ts'
import type { Clock } from '../../services/clock.ts'
import type { Hear, HeadNews, NewsOf } from '../../services/heads/index.ts'
import { Connection } from './connection.ts'
import { heightNews, keys } from './layout.ts'
import { lowerHeight, raiseHeight } from './scripts.ts'

/** ms for which a height is kept that nobody raises: callers have long forgotten it. */
const kept = 600_000

/** The heights that gateways on other machines tell callers. */
export interface Heights {
  readonly newsOf: NewsOf
  close(): Promise<void>
}

/**
 * Heights over Redis, on two connections of its own that are opened when the first network is. Nobody ever waits for it:
 * what Redis does not take is dropped, and told anew once it is back, as is what was missed meanwhile.
 */
export const openHeights = (address: RedisAddress, clock: Clock): Heights => {
  const networks = new Map<string, NetworkHeights>()
  let lines: { readonly speaking: Connection; readonly listening: Connection } | undefined

  /** Redis tells us our own words too, perhaps when they are not true any more. */
  const self = randomBytes(8).toString('hex')

  const hear = (message: string): void => {
    const [, height, speaker, network = ''] = /^(\d{1,16}) (\w+) (.+)$/.exec(message) ?? []
    if (speaker !== self) networks.get(network)?.hear(Number(height))
  }
  const open = () => {
    const speaking: Connection = new Connection(address, clock, {
      isPatient: true,
      onReady: () => networks.forEach(network => network.sync()),
    })
    const listening: Connection = new Connection(address, clock, {
      isPatient: true,
      onReady: () => {
        // Said anew each time, because the first time may have been cut short.
        void listening.subscribe(heightNews, hear).then(() => networks.forEach(network => network.sync()))
      },
    })
    // Nothing but close() ends their patience.
    for (const line of [speaking, listening]) line.open().catch(() => undefined)
    return { speaking, listening }
  }
  return {
    newsOf(name, chainId) {
      lines ??= open()
      const network = `${name}:${chainId}`
      const heights = new NetworkHeights(network, self, lines.speaking)
      networks.set(network, heights)
      return [heights]
    },
    async close() {
      await Promise.all([lines?.speaking.close(), lines?.listening.close()])
    },
  }
}

class NetworkHeights implements HeadNews {
  readonly #network: string
  readonly #self: string
  readonly #redis: Connection
  #hear: Hear = height => height
  /** What callers are told here, and the greatest that Redis is known to have. */
  #height = 0
  #known = 0
  /** Something is to be said, or asked for, beyond what is under way. */
  #isDue = false
  #isSending = false

  constructor(network: string, self: string, redis: Connection) {
    this.#network = network
    this.#self = self
    this.#redis = redis
  }

  raise(height: number): undefined {
    this.#height = height
    if (height > this.#known) this.#send()
  }

  lower(height: number): void {
    this.#height = this.#known = height
    void this.#redis.run(lowerHeight, [keys.height(this.#network)], [height]).catch(() => undefined)
  }

  listen(hear: Hear): void {
    this.#hear = hear
  }

  /** Others tell this height. An answer on one connection may have been overtaken by news on the other. */
  hear(height: number): void {
    if (height < this.#known) return
    this.#known = height
    if (height > this.#height) void this.#hear(height)
  }

  /** Redis may have lost what it had, and others may have told it more. */
  sync(): void {
    this.#known = 0
    this.#send()
  }

  /** The greatest height there is; `sent` was ours, and may have been taken back since. */
  #learn(height: number, sent: number): void {
    if (height > sent) this.hear(height)
    else if (sent === this.#height) this.#known = Math.max(this.#known, sent)
  }

  /** One message at a time, the newest height in it: a Redis that is slow gets fewer. */
  #send(): void {
    this.#isDue = true
    if (!this.#isSending) void this.#sendAll()
  }

  async #sendAll(): Promise<void> {
    this.#isSending = true
    while (this.#isDue) {
      this.#isDue = false
      const sent = this.#height
      const words = [sent, kept, heightNews, `${this.#self} ${this.#network}`]
      // While Redis is away nothing is due: sync() comes when it is back.
      await this.#redis.run(raiseHeight, [keys.height(this.#network)], words).then(
        height => this.#learn(Number(height), sent),
        () => undefined,
      )
    }
    this.#isSending = false
  }
}
