import type { PluginFile } from '../plugin/plugin-fault.ts'
import type { Clock, Timer } from '../services/clock.ts'
import type { Log } from '../services/log.ts'
import { ShortLivedMap } from '../util/short-lived-map.ts'

/** A plugin that is not built in, in a network. */
export interface WatchedPlugin {
  readonly network: string
  readonly name: string
  readonly file: PluginFile
  /** So long a call waits while nothing but the plugin can answer it. */
  readonly timeoutMs: number
}

/** Code that runs without returning to the event loop: of the plugin, or of those below it. */
interface Run {
  readonly plugin: WatchedPlugin | undefined
  readonly outer: Run | undefined
  hasEnded: boolean
}

/** The event loop serves nobody for so long: the log names the plugin. */
const blockedMs = 1_000

/** Calls wait for plugins in steps of this length: a process that is busy for longer does not take an answer for late that waits to be read. */
const sweepMs = 1_000

/**
 * Watches all plugins of the process that are not built in: which one has blocked the event loop, and which one does not answer. Nothing runs while
 * no call is with them, and there is no timer for each call.
 */
export class PluginCalls {
  readonly #clock: Pick<Clock, 'monotonic' | 'every'>
  readonly #log: Log
  #run: Run | undefined
  #runSinceMs = 0
  /** By number. */
  readonly #waiting = new ShortLivedMap<number, PluginCall>()
  #callCount = 0
  #sweeps = 0
  #timer: Timer | undefined

  constructor(clock: Pick<Clock, 'monotonic' | 'every'>, log: Log) {
    this.#clock = clock
    this.#log = log
  }

  /** What runs from now on, up to end(); undefined for the plugins below, which are watched themselves, or built in. */
  begin(plugin: WatchedPlugin | undefined): Run {
    this.#measure()
    this.#run = { plugin, outer: this.#run, hasEnded: false }
    return this.#run
  }

  end(run: Run): void {
    this.#measure()
    run.hasEnded = true
    while (this.#run?.hasEnded === true) this.#run = this.#run.outer
  }

  /** Calls a function of the plugin; what it does later is not watched. */
  run<T>(plugin: WatchedPlugin | undefined, call: () => T): T {
    const run = this.begin(plugin)
    try {
      return call()
    } finally {
      this.end(run)
    }
  }

  newCall(plugin: WatchedPlugin): PluginCall {
    return new PluginCall(plugin, this)
  }

  get sweeps(): number {
    return this.#sweeps
  }

  /** Returns its number, by which it is removed. */
  add(call: PluginCall): number {
    const number = (this.#callCount += 1)
    this.#waiting.set(number, call)
    this.#timer ??= this.#clock.every(sweepMs, () => this.#sweep())
    return number
  }

  remove(number: number): void {
    this.#waiting.delete(number)
  }

  close(): void {
    this.#timer?.cancel()
    this.#timer = undefined
  }

  #measure(): void {
    const now = this.#clock.monotonic()
    const durationMs = now - this.#runSinceMs
    this.#runSinceMs = now
    if (durationMs < blockedMs || this.#run?.plugin === undefined) return
    const { network, name: plugin, file } = this.#run.plugin
    const fields = { event: 'event-loop-blocked', network, plugin, location: file.shownAs, durationMs: Math.round(durationMs) }
    this.#log.error(fields, 'plugin blocked the event loop: no other call was served meanwhile')
  }

  #sweep(): void {
    if (this.#waiting.size === 0) return this.close()
    this.#sweeps += 1
    for (const call of this.#waiting.values()) call.endIfLate()
  }
}

const settled = Promise.resolve()

/** One call that a plugin handles. */
export class PluginCall {
  readonly #plugin: WatchedPlugin
  readonly #calls: PluginCalls
  /** Calls of `next()` that have not returned: meanwhile the plugin is not what the caller waits for. */
  #below = 0
  /** Since when it is. */
  #sinceSweep: number
  /** Among those that wait. */
  #number = 0
  #reject: ((error: Error) => void) | undefined

  constructor(plugin: WatchedPlugin, calls: PluginCalls) {
    this.#plugin = plugin
    this.#calls = calls
    this.#sinceSweep = calls.sweeps
  }

  /** Settles as the answer of the plugin does, or rejects when it is late; `onLate` gets what comes after that. */
  wait<T>(answer: Promise<T>, onLate: (answer: T) => void): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#reject = reject
      this.#number = this.#calls.add(this)
      const end = (): boolean => {
        this.#calls.remove(this.#number)
        const isLate = this.#reject === undefined
        this.#reject = undefined
        return isLate
      }
      answer.then(
        value => (end() ? onLate(value) : resolve(value)),
        (error: unknown) => void (end() || reject(error)),
      )
    })
  }

  beginBelow(): void {
    this.#below += 1
  }

  /** What the plugin does with the reply at once is watched. */
  endBelow(): void {
    this.#below -= 1
    this.#sinceSweep = this.#calls.sweeps
    const run = this.#calls.begin(this.#plugin)
    // The plugin, if it waits for the reply, comes first. queueMicrotask() takes three times as long.
    void settled.then(() => this.#calls.end(run))
  }

  endIfLate(): void {
    const { timeoutMs } = this.#plugin
    if (this.#below > 0 || (this.#calls.sweeps - this.#sinceSweep - 1) * sweepMs < timeoutMs) return
    this.#calls.remove(this.#number)
    this.#reject?.(new Error(`no answer for ${timeoutMs / 1000} s`))
    this.#reject = undefined
  }
}
