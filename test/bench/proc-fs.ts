import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'

/** What Linux counts for processes, all threads together. */
export interface ProcessUsage {
  /** User and kernel CPU time, in microseconds. */
  readonly cpuMicros: number
  /** Resident memory, and its peak since the last resetPeakRss(). */
  readonly rssMB: number
  readonly peakRssMB: number
}

/** Only Linux: elsewhere neither CPU nor memory is measured. */
export const hasProc = existsSync('/proc/self/schedstat')

/** The process and its descendants. */
export const processTreeOf = (pid: number): readonly number[] => {
  const children = hasProc ? threadFoldersOf(pid).flatMap(task => readProcFile(`${task}/children`).split(' ').filter(Boolean)) : []
  return [pid, ...children.flatMap(child => processTreeOf(Number(child)))]
}

/** Undefined without /proc. */
export const readProcessUsage = (pids: readonly number[]): ProcessUsage | undefined => {
  if (!hasProc || pids.length === 0) return undefined
  const sum = (count: (pid: number) => number) => pids.reduce((total, pid) => total + count(pid), 0)
  return { cpuMicros: sum(cpuMicrosOf), rssMB: sum(pid => memoryMBOf(pid, 'VmRSS')), peakRssMB: sum(pid => memoryMBOf(pid, 'VmHWM')) }
}

/** Resets `peakRssMB`; where that is not permitted, the peak is that since the start of the process. */
export const resetPeakRss = (pids: readonly number[]): void => {
  for (const pid of pids) {
    try {
      writeFileSync(`/proc/${pid}/clear_refs`, '5')
    } catch {
      /* a process of another user, or no Linux */
    }
  }
}

/** How many files this process and its children may open. */
export const maxOpenFiles = (): number => Number(/open files +(\d+)/.exec(readProcFile('/proc/self/limits'))?.[1] ?? 1024)

const threadFoldersOf = (pid: number): readonly string[] => {
  const folder = `/proc/${pid}/task`
  return existsSync(folder) ? readdirSync(folder).map(task => `${folder}/${task}`) : []
}

/** From schedstat, in nanoseconds and per thread; the sum in `stat` has a resolution of 10 ms. */
const cpuMicrosOf = (pid: number): number =>
  threadFoldersOf(pid).reduce((total, task) => total + Number(readProcFile(`${task}/schedstat`).split(' ')[0]) / 1000, 0)

const memoryMBOf = (pid: number, field: string): number =>
  (Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(readProcFile(`/proc/${pid}/status`))?.[1] ?? 0) * 1024) / 1e6

/** Empty when the process has ended. */
const readProcFile = (file: string): string => {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
