import { readFileSync } from 'node:fs'
import type { Gateway } from './gateway.ts'

/** Linux alone tells it. */
export const noMemory: string | false = process.platform === 'linux' ? false : 'only Linux tells what memory another process has'

/** Bytes of memory that a process has now (its resident set). */
export const residentOf = (pid: number): number =>
  1024 * Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])

/** Options of Node.js for a gateway that is to tell its live memory. */
export const telling = ['--expose-gc', `--import=${new URL('./tell-memory.js', import.meta.url)}`]

/** Bytes that such a gateway still needs once garbage has been collected: heap, and what lies outside for it. */
export const liveOf = async (gateway: Gateway): Promise<number> => {
  const before = gateway.log.filter(line => /^memory \d+$/.test(String(line.event))).length
  process.kill(gateway.pid, 'SIGUSR2')
  return Number((await gateway.event(`memory ${before + 1}`)).live)
}
