import type { Clock } from '../services/clock.ts'
import type { Hear, HeadNews } from '../services/heads/index.ts'
import type { FromPrimary, FromWorker } from './messages.ts'

/** A worker that heads are lent to. */
export interface Member {
  say(message: FromPrimary): void
}

/**
 * ms that a worker is waited for: one that is busy for longer tells nobody anything meanwhile. It is not waited for again
 * until it says what it has seen: else one that is stopped would cost callers as much with each block.
 */
const patience = 50

/** The height of one network over the workers of this gateway: told by none before it is known to all. */
export class CrewNews implements HeadNews {
  readonly #network: string
  readonly #clock: Clock
  /** Each worker, and the height that it has seen. */
  readonly #seen = new Map<Member, number>()
  /** Those who were waited for in vain. */
  readonly #busy = new Set<Member>()
  readonly #waiting = new Set<() => void>()
  #hear: Hear = height => height
  #height = 0
  #shared = 0

  constructor(network: string, clock: Clock) {
    this.#network = network
    this.#clock = clock
  }

  get members(): readonly Member[] {
    return [...this.#seen.keys()]
  }

  raise(height: number): Promise<void> | undefined {
    this.#height = height
    this.#say({ kind: 'height', network: this.#network, height })
    return this.#untilSeen(height).then(() => {
      if (height > this.#shared && height <= this.#height) this.#share(height)
    })
  }

  lower(height: number): void {
    this.#height = height
    this.#say({ kind: 'height', network: this.#network, height })
    this.#share(height)
  }

  listen(hear: Hear): void {
    this.#hear = hear
  }

  join(member: Member): void {
    this.#seen.set(member, 0)
    member.say({ kind: 'height', network: this.#network, height: this.#height })
    member.say({ kind: 'shared', network: this.#network, height: this.#shared })
  }

  leave(member: Member): void {
    this.#seen.delete(member)
    this.#busy.delete(member)
    this.#look()
  }

  hear(member: Member, message: FromWorker): void {
    if (message.kind === 'tell') void this.#answer(member, message)
    if (message.kind !== 'seen' || !this.#seen.has(member)) return
    this.#seen.set(member, message.height)
    this.#busy.delete(member)
    this.#look()
  }

  async #answer(member: Member, { id, upstream, height }: Extract<FromWorker, { kind: 'tell' }>): Promise<void> {
    member.say({ kind: 'told', network: this.#network, id, height: await this.#hear(height, upstream) })
  }

  #untilSeen(height: number): Promise<void> {
    return new Promise(resolve => {
      const settle = () => {
        timer.cancel()
        this.#waiting.delete(look)
        resolve()
      }
      const look = () => {
        if (this.#missing(height).length === 0) settle()
      }
      const timer = this.#clock.after(patience, () => {
        for (const member of this.#missing(height)) this.#busy.add(member)
        settle()
      })
      this.#waiting.add(look)
      look()
    })
  }

  /** Those who are waited for. */
  #missing(height: number): readonly Member[] {
    return [...this.#seen].flatMap(([member, seen]) => (seen >= height || this.#busy.has(member) ? [] : [member]))
  }

  #look(): void {
    for (const look of this.#waiting) look()
  }

  #share(height: number): void {
    this.#shared = height
    this.#say({ kind: 'shared', network: this.#network, height })
  }

  #say(message: FromPrimary): void {
    for (const member of this.#seen.keys()) member.say(message)
  }
}
