import { existsSync, openSync, readSync } from 'node:fs'
import { connect } from 'node:net'
import { PerformanceObserver, createHistogram } from 'node:perf_hooks'
import { isMainThread } from 'node:worker_threads'

// Loaded into each measured process with --import, so that none of them carries code of the benchmark, and all bear
// the same cost: while a round runs, a timer that looks at the event loop every so many milliseconds.

/** What a process tells about one round. Times in ms. */
export interface MonitorReport {
  readonly pid: number
  /** How late the timer came because the event loop was held up: in 99 of 100 cases at most, and ever. */
  readonly loopP99: number
  readonly loopMax: number
  /** Spent in garbage collections. */
  readonly gcMs: number
}

/**
 * How long the event loop is held up. Node's own monitor counts it as delay, too, when the system
 * gives the core to another process; here load, node and server share a few cores, so that part is taken off.
 */
class EventLoopMonitor {
  readonly #runQueueWaitMs = openRunQueueWait()
  #delays = createHistogram()
  #timer: NodeJS.Timeout | undefined

  /** Looks every `gap` ms. At 1 ms, which shows how long each block is, that takes less than 1 % of a core. */
  begin(intervalMs: number): void {
    this.#delays = createHistogram()
    let [then, waitedThen] = [performance.now(), this.#runQueueWaitMs()]
    this.#timer = setInterval(() => {
      const [now, waited] = [performance.now(), this.#runQueueWaitMs()]
      const delayMs = now - then - (waited - waitedThen) - intervalMs
      this.#delays.record(Math.max(1, Math.round(delayMs * 1e6)))
      then = now
      waitedThen = waited
    }, intervalMs)
  }

  end(): { loopP99: number; loopMax: number } {
    clearInterval(this.#timer)
    return { loopP99: this.#delays.percentile(99) / 1e6, loopMax: this.#delays.max / 1e6 }
  }
}

/** How long this thread has been ready to run while others ran, in ms; 0 where Linux does not tell. */
const openRunQueueWait = (): (() => number) => {
  const file = `/proc/self/task/${process.pid}/schedstat`
  if (!existsSync(file)) return () => 0
  const descriptor = openSync(file, 'r')
  const bytes = Buffer.alloc(64)
  return () => Number(bytes.toString('latin1', 0, readSync(descriptor, bytes, 0, 64, 0)).split(' ')[1]) / 1e6
}

const reportToBench = (path: string): void => {
  const loop = new EventLoopMonitor()
  let gcMs = 0
  const add = (entries: readonly { readonly duration: number }[]): void => {
    for (const { duration } of entries) gcMs += duration
  }
  const gcObserver = new PerformanceObserver(list => add(list.getEntries()))
  gcObserver.observe({ entryTypes: ['gc'] })

  const begin = (intervalMs: number): object => {
    add(gcObserver.takeRecords())
    gcMs = 0
    loop.begin(intervalMs)
    return {}
  }
  const end = (): MonitorReport => {
    add(gcObserver.takeRecords())
    return { pid: process.pid, ...loop.end(), gcMs }
  }

  const socket = connect(path, () => socket.write(`${process.pid}\n`))
  socket.on('data', data => {
    const [command, gap] = data.toString().split(' ')
    socket.write(`${JSON.stringify(command === 'begin' ? begin(Number(gap)) : end())}\n`)
  })
  socket.on('error', () => process.exit()) // the benchmark is gone: nobody else would end this process
  socket.on('close', () => process.exit())
  socket.unref()
}

const monitorPath = process.env['TOLLGATE_BENCH_MONITOR']
if (isMainThread && monitorPath !== undefined) reportToBench(monitorPath)
