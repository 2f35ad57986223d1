import { existsSync, openSync, readSync } from 'node:fs'
import { connect } from 'node:net'
import { PerformanceObserver, createHistogram } from 'node:perf_hooks'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { isMainThread } from 'node:worker_threads'

// Loaded into each measured process with --import: no server contains code of the benchmark, and all have the same cost,
// a timer that samples the event loop while a round runs.

/** The report of a process on one round. Times in ms. */
export interface MonitorReport {
  readonly pid: number
  /** Delay of the timer because the event loop was blocked: 99th percentile and maximum. */
  readonly loopP99: number
  readonly loopMax: number
  /** Time spent in garbage collections. */
  readonly gcMs: number
}

/**
 * Measures how long the event loop is blocked. Node's own monitor also counts the time in which the system gives the core
 * to another process; load generator, node and server share a few cores here, so this time is subtracted.
 */
class EventLoopMonitor {
  readonly #runQueueWaitMs = openRunQueueWait()
  #delays = createHistogram()
  #timer: NodeJS.Timeout | undefined

  /** Samples every `intervalMs`. At 1 ms, which shows the length of each block, that takes less than 1 % of a core. */
  begin(intervalMs: number): void {
    this.#delays = createHistogram()
    let [lastMs, lastWaitMs] = [performance.now(), this.#runQueueWaitMs()]
    this.#timer = setInterval(() => {
      const [nowMs, waitMs] = [performance.now(), this.#runQueueWaitMs()]
      const delayMs = nowMs - lastMs - (waitMs - lastWaitMs) - intervalMs
      this.#delays.record(Math.max(1, Math.round(delayMs * 1e6)))
      lastMs = nowMs
      lastWaitMs = waitMs
    }, intervalMs)
  }

  end(): { loopP99: number; loopMax: number } {
    clearInterval(this.#timer)
    return { loopP99: this.#delays.percentile(99) / 1e6, loopMax: this.#delays.max / 1e6 }
  }
}

/** How long this thread has been ready to run while others ran, in ms; 0 without /proc. */
const openRunQueueWait = (): (() => number) => {
  const file = `/proc/self/task/${process.pid}/schedstat`
  if (!existsSync(file)) return () => 0
  const descriptor = openSync(file, 'r')
  const bytes = Buffer.alloc(64)
  return () => Number(bytes.toString('latin1', 0, readSync(descriptor, bytes, 0, 64, 0)).split(' ')[1]) / 1e6
}

/** What the process keeps in memory: V8's heap, and what its objects have outside of it. */
const readLiveBytes = (): number => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void // V8's, as the flag describes it
  setFlagsFromString('--no-expose-gc')
  for (let i = 0; i < 2; i++) collect() // memory outside the heap is freed by the second
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

const reportToBench = (path: string): void => {
  const loop = new EventLoopMonitor()
  let gcMs = 0
  const addPauses = (entries: readonly { readonly duration: number }[]): void => {
    for (const { duration } of entries) gcMs += duration
  }
  const gcObserver = new PerformanceObserver(list => addPauses(list.getEntries()))
  gcObserver.observe({ entryTypes: ['gc'] })

  const begin = (intervalMs: number): object => {
    addPauses(gcObserver.takeRecords())
    gcMs = 0
    loop.begin(intervalMs)
    return {}
  }
  const end = (): MonitorReport => {
    addPauses(gcObserver.takeRecords())
    return { pid: process.pid, ...loop.end(), gcMs }
  }

  const socket = connect(path, () => socket.write(`${process.pid}\n`))
  socket.on('data', data => {
    const [command, intervalMs] = data.toString().split(' ')
    const report = command === 'live' ? readLiveBytes() : command === 'begin' ? begin(Number(intervalMs)) : end()
    socket.write(`${JSON.stringify(report)}\n`)
  })
  socket.on('error', () => process.exit()) // the benchmark has ended: nothing else would end this process
  socket.on('close', () => process.exit())
  socket.unref()
}

const monitorPath = process.env['TOLLGATE_BENCH_MONITOR']
if (isMainThread && monitorPath !== undefined) reportToBench(monitorPath)
