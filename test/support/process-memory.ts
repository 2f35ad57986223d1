import { readFileSync } from 'node:fs'
import type { GatewayProcess } from './deployment.ts'

/** Linux alone tells it. */
export const skipUnlessLinux: string | false = process.platform === 'linux' ? false : 'only Linux tells what memory another process has'

/** Bytes of memory that a process has now (its resident set). */
export const residentBytesOf = (pid: number): number =>
  1024 * Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])

/** Options of Node.js for a gateway that is to tell its live memory. */
export const memoryReportOptions = ['--expose-gc', `--import=${new URL('./report-memory.js', import.meta.url)}`]

/** Bytes that such a gateway still needs once garbage has been collected: heap, and what lies outside for it. */
export const liveBytesOf = async (gateway: GatewayProcess): Promise<number> => {
  const before = gateway.log.filter(line => /^memory \d+$/.test(String(line.event))).length
  process.kill(gateway.pid, 'SIGUSR2')
  return Number((await gateway.waitForEvent(`memory ${before + 1}`)).live)
}
