import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'

/** What Linux counts for a process and its children, all threads together. */
export interface ProcessUsage {
  /** CPU time in us, of user and kernel. */
  readonly cpuMicros: number
  /** Resident memory in MB, and its peak since the last resetPeak(). */
  readonly rssMB: number
  readonly peakRssMB: number
}

/** Elsewhere than on Linux neither CPU nor memory is measured. */
export const hasProc = existsSync('/proc/self/schedstat')

/** The process and those it started, and so on. */
export const processTreeOf = (pid: number): readonly number[] => {
  const children = hasProc ? threadFoldersOf(pid).flatMap(task => readProcFile(`${task}/children`).split(' ').filter(Boolean)) : []
  return [pid, ...children.flatMap(child => processTreeOf(Number(child)))]
}

/** Undefined where there is nothing to read. */
export const readProcessUsage = (pids: readonly number[]): ProcessUsage | undefined => {
  if (!hasProc || pids.length === 0) return undefined
  const sum = (count: (pid: number) => number) => pids.reduce((total, pid) => total + count(pid), 0)
  return { cpuMicros: sum(cpuMicrosOf), rssMB: sum(pid => memoryMBOf(pid, 'VmRSS')), peakRssMB: sum(pid => memoryMBOf(pid, 'VmHWM')) }
}

/** From here on `peak` counts anew; where that is not allowed it counts from the start of the process. */
export const resetPeakRss = (pids: readonly number[]): void => {
  for (const pid of pids) {
    try {
      writeFileSync(`/proc/${pid}/clear_refs`, '5')
    } catch {
      /* another's process, or no Linux */
    }
  }
}

/** How many files this process and its children may have open. */
export const maxOpenFiles = (): number => Number(/open files +(\d+)/.exec(readProcFile('/proc/self/limits'))?.[1] ?? 1024)

const threadFoldersOf = (pid: number): readonly string[] => {
  const folder = `/proc/${pid}/task`
  return existsSync(folder) ? readdirSync(folder).map(task => `${folder}/${task}`) : []
}

/** In schedstat it stands in nanoseconds and per thread; the sum in `stat` is counted in steps of 10 ms. */
const cpuMicrosOf = (pid: number): number =>
  threadFoldersOf(pid).reduce((total, task) => total + Number(readProcFile(`${task}/schedstat`).split(' ')[0]) / 1000, 0)

const memoryMBOf = (pid: number, field: string): number =>
  (Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(readProcFile(`/proc/${pid}/status`))?.[1] ?? 0) * 1024) / 1e6

/** Empty when the process has just ended. */
const readProcFile = (file: string): string => {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
