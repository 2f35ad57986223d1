import { spawn } from 'node:child_process'
import type { ChildProcessByStdio } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'

/** A server in a process of its own. */
export interface ServerProcess {
  readonly url: string
  /** Absent for a peer whose process is not known. */
  readonly pid?: number
  /** From the start of the process to its line `listening`. */
  readonly startupMs: number
  stop(): Promise<void>
}

export interface LaunchOptions {
  readonly script: URL
  readonly args: readonly string[]
  /** Socket of the monitor server; without it the process has no monitor. */
  readonly monitorPath?: string
}

type Child = ChildProcessByStdio<null, Readable, Readable>

/** How long a process may take to listen, and to end after a signal. */
const processTimeoutMs = 60_000

/** Processes that have not been stopped. */
const runningChildren = new Set<Child>()
let isStopping = false

const maxLastLines = 20

/** Starts a Node.js process, and resolves when the process prints that it listens. */
export const startServer = async (options: LaunchOptions): Promise<ServerProcess> => {
  const startMs = performance.now()
  const child = spawnServer(options)
  const url = await waitForListeningUrl(child)
  return { url, pid: child.pid as number, startupMs: performance.now() - startMs, stop: () => stopServer(child) }
}

/** Kills all processes immediately; none can be started any more. */
export const stopAll = (): void => {
  isStopping = true
  for (const child of runningChildren) child.kill('SIGKILL')
  runningChildren.clear()
}

export const isStopped = (): boolean => isStopping

/** Prints the last lines of a process that ends without having been stopped. */
const spawnServer = ({ script, args, monitorPath }: LaunchOptions): Child => {
  if (isStopping) throw new Error('the benchmark is stopping')
  const preload = monitorPath === undefined ? [] : ['--import', new URL('./process-monitor.js', import.meta.url).href]
  const child = spawn(process.execPath, [...preload, fileURLToPath(script), ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, NODE_ENV: 'production', ...(monitorPath === undefined ? {} : { TOLLGATE_BENCH_MONITOR: monitorPath }) },
  })
  runningChildren.add(child)
  const lastLines: string[] = []
  for (const input of [child.stdout, child.stderr]) {
    createInterface({ input }).on('line', line => void (lastLines.push(line) > maxLastLines && lastLines.shift()))
  }
  child.on('close', (code, signal) => {
    if (!runningChildren.delete(child)) return
    console.error([`${fileURLToPath(script)} ended with ${code ?? signal}`, ...lastLines].join('\n'))
  })
  return child
}

const waitForListeningUrl = (child: Child): Promise<string> =>
  new Promise((resolve, reject) => {
    const fail = (reason: string) => {
      clearTimeout(timeout)
      reject(new Error(`a server ${reason}`))
    }
    const timeout = setTimeout(() => fail(`did not listen within ${processTimeoutMs} ms`), processTimeoutMs)
    child.once('close', () => fail('ended before it listened'))
    createInterface({ input: child.stdout }).on('line', line => {
      const url = parseListeningUrl(line)
      if (url === undefined) return
      clearTimeout(timeout)
      resolve(url)
    })
  })

const parseListeningUrl = (line: string): string | undefined => {
  try {
    const { event, rpc } = JSON.parse(line) as { event?: string; rpc?: string } // each log line is an object
    return event === 'listening' ? rpc : undefined
  } catch {
    return undefined
  }
}

const stopServer = (child: Child): Promise<void> =>
  new Promise(resolve => {
    if (!runningChildren.delete(child)) return resolve()
    const timeout = setTimeout(() => child.kill('SIGKILL'), processTimeoutMs)
    child.once('close', () => {
      clearTimeout(timeout)
      resolve()
    })
    child.kill()
  })
