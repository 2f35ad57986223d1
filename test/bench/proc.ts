import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'

/** What Linux counts for a process and its children, all threads together. */
export interface Usage {
  /** CPU time in us, of user and kernel. */
  readonly cpu: number
  /** Resident memory in MB, and its peak since the last resetPeak(). */
  readonly rss: number
  readonly peak: number
}

/** Elsewhere than on Linux neither CPU nor memory is measured. */
export const hasProc = existsSync('/proc/self/schedstat')

/** The process and those it started, and so on. */
export const familyOf = (pid: number): readonly number[] => {
  const children = hasProc ? tasksOf(pid).flatMap(task => read(`${task}/children`).split(' ').filter(Boolean)) : []
  return [pid, ...children.flatMap(child => familyOf(Number(child)))]
}

/** Undefined where there is nothing to read. */
export const readUsage = (pids: readonly number[]): Usage | undefined => {
  if (!hasProc || pids.length === 0) return undefined
  const sum = (count: (pid: number) => number) => pids.reduce((total, pid) => total + count(pid), 0)
  return { cpu: sum(cpuOf), rss: sum(pid => memoryOf(pid, 'VmRSS')), peak: sum(pid => memoryOf(pid, 'VmHWM')) }
}

/** From here on `peak` counts anew; where that is not allowed it counts from the start of the process. */
export const resetPeak = (pids: readonly number[]): void => {
  for (const pid of pids) {
    try {
      writeFileSync(`/proc/${pid}/clear_refs`, '5')
    } catch {
      /* another's process, or no Linux */
    }
  }
}

/** How many files this process and its children may have open. */
export const openFilesLimit = (): number => Number(/open files +(\d+)/.exec(read('/proc/self/limits'))?.[1] ?? 1024)

const tasksOf = (pid: number): readonly string[] => {
  const folder = `/proc/${pid}/task`
  return existsSync(folder) ? readdirSync(folder).map(task => `${folder}/${task}`) : []
}

/** In schedstat it stands in nanoseconds and per thread; the sum in `stat` is counted in steps of 10 ms. */
const cpuOf = (pid: number): number =>
  tasksOf(pid).reduce((total, task) => total + Number(read(`${task}/schedstat`).split(' ')[0]) / 1000, 0)

const memoryOf = (pid: number, field: string): number =>
  (Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(read(`/proc/${pid}/status`))?.[1] ?? 0) * 1024) / 1e6

/** Empty when the process has just ended. */
const read = (file: string): string => {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
