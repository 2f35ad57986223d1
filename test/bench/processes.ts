import { spawn } from 'node:child_process'
import type { ChildProcessByStdio } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'

/** A server in a process of its own. */
export interface Server {
  readonly url: string
  /** Absent for a peer whose process is not known. */
  readonly pid?: number
  /** From its start to its first line that says `listening`, in ms. */
  readonly startup: number
  stop(): Promise<void>
}

export interface Start {
  readonly script: URL
  readonly args: readonly string[]
  /** Where its probe reports to; without it the process runs as anybody else's would. */
  readonly probe?: string
}

type Child = ChildProcessByStdio<null, Readable, Readable>

/** Longest wait for a process to listen, and to end once told to, in ms. */
const patience = 30_000

/** Those that nobody has told to end. */
const running = new Set<Child>()
let stopped = false

/** Starts a Node process, and resolves when it says on stdout that it listens. */
export const startServer = async (start: Start): Promise<Server> => {
  const begun = performance.now()
  const child = launch(start)
  const url = await hearUrl(child)
  return { url, pid: child.pid as number, startup: performance.now() - begun, stop: () => stop(child) }
}

/** Ends what is still running, at once; nothing starts any more. */
export const stopAll = (): void => {
  stopped = true
  for (const child of running) child.kill('SIGKILL')
  running.clear()
}

export const isStopped = (): boolean => stopped

/** Whatever ends before it is told to has its last words printed. */
const launch = ({ script, args, probe }: Start): Child => {
  if (stopped) throw new Error('the benchmark is stopping')
  const preload = probe === undefined ? [] : ['--import', new URL('./probe.js', import.meta.url).href]
  const child = spawn(process.execPath, [...preload, fileURLToPath(script), ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, NODE_ENV: 'production', ...(probe === undefined ? {} : { TOLLGATE_BENCH_PROBE: probe }) },
  })
  running.add(child)
  const words: string[] = []
  for (const input of [child.stdout, child.stderr]) {
    createInterface({ input }).on('line', line => void (words.push(line) > 20 && words.shift()))
  }
  child.on('close', (code, signal) => {
    if (!running.delete(child)) return
    console.error([`${fileURLToPath(script)} ended with ${code ?? signal}`, ...words].join('\n'))
  })
  return child
}

const hearUrl = (child: Child): Promise<string> =>
  new Promise((resolve, reject) => {
    const fail = (how: string) => {
      clearTimeout(late)
      reject(new Error(`a server ${how}`))
    }
    const late = setTimeout(() => fail(`did not listen within ${patience} ms`), patience)
    child.once('close', () => fail('ended before it listened'))
    createInterface({ input: child.stdout }).on('line', line => {
      const url = urlIn(line)
      if (url === undefined) return
      clearTimeout(late)
      resolve(url)
    })
  })

const urlIn = (line: string): string | undefined => {
  try {
    const { event, rpc } = JSON.parse(line) as { event?: string; rpc?: string } // a line of a log is an object
    return event === 'listening' ? rpc : undefined
  } catch {
    return undefined
  }
}

const stop = (child: Child): Promise<void> =>
  new Promise(resolve => {
    if (!running.delete(child)) return resolve()
    const late = setTimeout(() => child.kill('SIGKILL'), patience)
    child.once('close', () => {
      clearTimeout(late)
      resolve()
    })
    child.kill()
  })
