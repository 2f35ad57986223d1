import { existsSync, openSync, readSync } from 'node:fs'
import { connect } from 'node:net'
import { PerformanceObserver, createHistogram } from 'node:perf_hooks'
import { isMainThread } from 'node:worker_threads'

// Loaded into each measured process with --import, so that none of them carries code of the benchmark, and all bear
// the same cost: while a round runs, a timer that looks at the event loop every so many milliseconds.

/** What a process tells about one round. Times in ms. */
export interface Heard {
  readonly pid: number
  /** How late the timer came because the event loop was held up: in 99 of 100 cases at most, and ever. */
  readonly loopP99: number
  readonly loopMax: number
  /** Spent in garbage collections. */
  readonly collecting: number
}

/**
 * How long the event loop is held up. Node's own monitor counts it as delay, too, when the system
 * gives the core to another process; here load, node and server share a few cores, so that part is taken off.
 */
class Loop {
  readonly #waited = openWaited()
  #delays = createHistogram()
  #timer: NodeJS.Timeout | undefined

  /** Looks every `gap` ms. At 1 ms, which shows how long each block is, that takes less than 1 % of a core. */
  begin(gap: number): void {
    this.#delays = createHistogram()
    let [then, waitedThen] = [performance.now(), this.#waited()]
    this.#timer = setInterval(() => {
      const [now, waited] = [performance.now(), this.#waited()]
      const held = now - then - (waited - waitedThen) - gap
      this.#delays.record(Math.max(1, Math.round(held * 1e6)))
      then = now
      waitedThen = waited
    }, gap)
  }

  end(): { loopP99: number; loopMax: number } {
    clearInterval(this.#timer)
    return { loopP99: this.#delays.percentile(99) / 1e6, loopMax: this.#delays.max / 1e6 }
  }
}

/** How long this thread has been ready to run while others ran, in ms; 0 where Linux does not tell. */
const openWaited = (): (() => number) => {
  const file = `/proc/self/task/${process.pid}/schedstat`
  if (!existsSync(file)) return () => 0
  const descriptor = openSync(file, 'r')
  const bytes = Buffer.alloc(64)
  return () => Number(bytes.toString('latin1', 0, readSync(descriptor, bytes, 0, 64, 0)).split(' ')[1]) / 1e6
}

const listen = (path: string): void => {
  const loop = new Loop()
  let collecting = 0
  const add = (entries: readonly { readonly duration: number }[]): void => {
    for (const { duration } of entries) collecting += duration
  }
  const collections = new PerformanceObserver(list => add(list.getEntries()))
  collections.observe({ entryTypes: ['gc'] })

  const begin = (gap: number): object => {
    add(collections.takeRecords())
    collecting = 0
    loop.begin(gap)
    return {}
  }
  const end = (): Heard => {
    add(collections.takeRecords())
    return { pid: process.pid, ...loop.end(), collecting }
  }

  const socket = connect(path, () => socket.write(`${process.pid}\n`))
  socket.on('data', data => {
    const [order, gap] = data.toString().split(' ')
    socket.write(`${JSON.stringify(order === 'begin' ? begin(Number(gap)) : end())}\n`)
  })
  socket.on('error', () => process.exit()) // the benchmark is gone: nobody else would end this process
  socket.on('close', () => process.exit())
  socket.unref()
}

const path = process.env['TOLLGATE_BENCH_PROBE']
if (isMainThread && path !== undefined) listen(path)
