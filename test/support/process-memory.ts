import { readFileSync } from 'node:fs'
import type { GatewayProcess } from './deployment.ts'

/** For tap's `skip`: memory of other processes is read from /proc. */
export const skipUnlessLinux: string | false = process.platform === 'linux' ? false : 'memory of other processes is measured on Linux only'

/** The resident set of a process. */
export const residentBytesOf = (pid: number): number =>
  1024 * Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])

/** Options of Node.js for a gateway whose live memory is measured. */
export const memoryReportOptions = ['--expose-gc', `--import=${new URL('./report-memory.js', import.meta.url)}`]

/** Live memory of such a gateway after garbage collections: heap and external memory. */
export const liveBytesOf = async (gateway: GatewayProcess): Promise<number> => {
  const before = gateway.log.filter(line => /^memory \d+$/.test(String(line.event))).length
  process.kill(gateway.pid, 'SIGUSR2')
  return Number((await gateway.waitForEvent(`memory ${before + 1}`)).live)
}
