import type { Step } from '../config/types.ts'
import type { Call } from '../plugin/call.ts'
import type { Services } from '../services/index.ts'
import type { Timer } from '../services/clock.ts'

const sweepIntervalMs = 10_000

/** A plugin that has had a call for so many sweeps, 20 to 30 s, is reported. */
const maxSweeps = 3

/** A call that a plugin has, and whether it waits for the plugins below. */
export class PendingCall {
  readonly requestId: string
  /** Sweeps that found the call with the plugin itself. */
  sweeps = 0
  #inNext = 0

  constructor(requestId: string) {
    this.requestId = requestId
  }

  get isBelow(): boolean {
    return this.#inNext > 0
  }

  enterNext(): void {
    this.#inNext += 1
  }

  leaveNext(): void {
    this.#inNext -= 1
    this.sweeps = 0
  }
}

/** The calls that an external plugin has. Names the plugin in the log when it never answers a call: nothing else would tell who has it. */
export class PendingCalls {
  readonly #step: Pick<Step, 'name' | 'file'>
  readonly #services: Pick<Services, 'log' | 'clock'>
  readonly #calls = new Set<PendingCall>()
  #timer: Timer | undefined

  constructor(step: Pick<Step, 'name' | 'file'>, services: Pick<Services, 'log' | 'clock'>) {
    this.#step = step
    this.#services = services
  }

  add({ origin }: Call): PendingCall {
    const call = new PendingCall(origin.requestId)
    this.#calls.add(call)
    return call
  }

  delete(call: PendingCall): void {
    this.#calls.delete(call)
  }

  watch(): void {
    this.#timer ??= this.#services.clock.every(sweepIntervalMs, () => this.#sweep())
  }

  unwatch(): void {
    this.#timer?.cancel()
    this.#timer = undefined
  }

  /** Each call is reported once, and in one line with the others of its sweep. */
  #sweep(): void {
    const overdue = [...this.#calls].filter(call => !call.isBelow && (call.sweeps += 1) === maxSweeps)
    const [first] = overdue
    if (first === undefined) return
    const { name, file } = this.#step
    const fields = { plugin: name, location: file?.shownAs, calls: overdue.length, requestId: first.requestId }
    this.#services.log.error(fields, 'plugin has not answered calls for more than 20 s')
  }
}
