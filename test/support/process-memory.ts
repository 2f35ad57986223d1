import { readFileSync } from 'node:fs'
import type { GatewayProcess } from './deployment.ts'

/** For tap's `skip`: memory of other processes is read from /proc. */
export const skipUnlessLinux: string | false = process.platform === 'linux' ? false : 'memory of other processes is measured on Linux only'

/** The resident set of a process. */
export const residentBytesOf = (pid: number): number => statusBytesOf(pid, 'VmRSS')

/** The part of the resident set that is in no file: what a process has allocated, without its program and without the files of LMDB. */
export const anonymousBytesOf = (pid: number): number => statusBytesOf(pid, 'RssAnon')

const statusBytesOf = (pid: number, name: 'VmRSS' | 'RssAnon'): number =>
  1024 * Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])

/** Options of Node.js for a gateway whose live memory is measured. */
export const memoryReportOptions = ['--expose-gc', `--import=${new URL('./report-memory.js', import.meta.url)}`]

/** Live memory of a process after garbage collections. */
export interface LiveMemory {
  readonly heapBytes: number
  /** Memory outside the heap that objects of the heap hold, such as buffers. */
  readonly externalBytes: number
}

/** That of such a gateway, or of one of its workers. */
export const liveMemoryOf = async (gateway: GatewayProcess, pid = gateway.pid): Promise<LiveMemory> => {
  const reports = `memory ${pid} `
  const before = gateway.log.filter(({ event }) => String(event).startsWith(reports)).length
  process.kill(pid, 'SIGUSR2')
  const { heap, external } = await gateway.waitForEvent(`${reports}${before + 1}`)
  return { heapBytes: Number(heap), externalBytes: Number(external) }
}

/** Its heap and external memory together. */
export const liveBytesOf = async (gateway: GatewayProcess): Promise<number> => {
  const { heapBytes, externalBytes } = await liveMemoryOf(gateway)
  return heapBytes + externalBytes
}
