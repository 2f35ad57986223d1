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
  /** From its start to its first line that says `listening`, in ms. */
  readonly startupMs: number
  stop(): Promise<void>
}

export interface LaunchOptions {
  readonly script: URL
  readonly args: readonly string[]
  /** Where its probe reports to; without it the process runs as anybody else's would. */
  readonly monitorPath?: string
}

type Child = ChildProcessByStdio<null, Readable, Readable>

/** Longest wait for a process to listen, and to end once told to, in ms. */
const processTimeoutMs = 30_000

/** Those that nobody has told to end. */
const runningChildren = new Set<Child>()
let isStopping = false

/** Starts a Node process, and resolves when it says on stdout that it listens. */
export const startServer = async (options: LaunchOptions): Promise<ServerProcess> => {
  const startedAt = performance.now()
  const child = spawnServer(options)
  const url = await waitForListeningUrl(child)
  return { url, pid: child.pid as number, startupMs: performance.now() - startedAt, stop: () => stopServer(child) }
}

/** Ends what is still running, at once; nothing starts any more. */
export const stopAll = (): void => {
  isStopping = true
  for (const child of runningChildren) child.kill('SIGKILL')
  runningChildren.clear()
}

export const isStopped = (): boolean => isStopping

/** Whatever ends before it is told to has its last words printed. */
const spawnServer = ({ script, args, monitorPath: probe }: LaunchOptions): Child => {
  if (isStopping) throw new Error('the benchmark is stopping')
  const preload = probe === undefined ? [] : ['--import', new URL('./process-monitor.js', import.meta.url).href]
  const child = spawn(process.execPath, [...preload, fileURLToPath(script), ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, NODE_ENV: 'production', ...(probe === undefined ? {} : { TOLLGATE_BENCH_MONITOR: probe }) },
  })
  runningChildren.add(child)
  const lastLines: string[] = []
  for (const input of [child.stdout, child.stderr]) {
    createInterface({ input }).on('line', line => void (lastLines.push(line) > 20 && lastLines.shift()))
  }
  child.on('close', (code, signal) => {
    if (!runningChildren.delete(child)) return
    console.error([`${fileURLToPath(script)} ended with ${code ?? signal}`, ...lastLines].join('\n'))
  })
  return child
}

const waitForListeningUrl = (child: Child): Promise<string> =>
  new Promise((resolve, reject) => {
    const fail = (how: string) => {
      clearTimeout(timeout)
      reject(new Error(`a server ${how}`))
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
    const { event, rpc } = JSON.parse(line) as { event?: string; rpc?: string } // a line of a log is an object
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
