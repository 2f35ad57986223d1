import { readFileSync } from 'node:fs'

/** Of the main thread of a process, in ms. */
export interface CpuTimes {
  readonly usedMs: number
  /** It waited for a CPU that other threads used. */
  readonly waitedMs: number
}

/** Zeros where nobody knows (not Linux). */
export const cpuTimesOf = (pid: number): CpuTimes => {
  if (process.platform !== 'linux') return { usedMs: 0, waitedMs: 0 }
  const [usedNs, waitedNs] = readFileSync(`/proc/${pid}/schedstat`, 'latin1').split(' ').map(Number) as [number, number]
  return { usedMs: usedNs / 1e6, waitedMs: waitedNs / 1e6 }
}
