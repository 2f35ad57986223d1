import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { LoadResult, LoadOptions } from './load/load-generator.ts'
import type { OpenCommand, LoadCommand } from './load/load-process-main.ts'

/** Open connections that carry calls. */
export interface LoadSession {
  /** Rejects at the first wrong response, and at the timeout. */
  run(options: LoadOptions): Promise<LoadResult>
  close(): Promise<void>
}

/** How long opening thousands of connections may take. */
const openTimeoutMs = 60_000

/** How long the calls in flight at the end of a run may take. */
const drainTimeoutMs = 30_000

const closeTimeoutMs = 10_000

/** The process that generates load, seen from the benchmark. */
export class LoadProcess {
  readonly #child: ChildProcess
  readonly #pending = new Map<number, (reply: LoadReply) => void>()
  #lastId = 0

  constructor() {
    this.#child = fork(fileURLToPath(new URL('./load/load-process-main.js', import.meta.url)))
    this.#child.on('message', (reply: LoadReply) => this.#settle(reply))
    this.#child.on('exit', () => {
      for (const id of [...this.#pending.keys()]) this.#settle({ id, error: 'the load process ended' })
    })
  }

  async open(command: Omit<OpenCommand, 'kind'>): Promise<LoadSession> {
    const session = (await this.#request({ kind: 'open', ...command }, openTimeoutMs)) as number
    return {
      run: async options => (await this.#request({ kind: 'run', session, options }, options.durationMs + drainTimeoutMs)) as LoadResult,
      close: async () => void (await this.#request({ kind: 'close', session }, closeTimeoutMs)),
    }
  }

  stop(): void {
    this.#child.kill()
  }

  #request(command: LoadCommand, timeoutMs: number): Promise<unknown> {
    const id = (this.#lastId += 1)
    return new Promise((resolve, reject) => {
      const timeout = setTimeout(() => this.#settle({ id, error: `"${command.kind}" timed out after ${timeoutMs} ms` }), timeoutMs)
      this.#pending.set(id, ({ value, error }) => {
        clearTimeout(timeout)
        if (error === undefined) resolve(value)
        else reject(new Error(error))
      })
      this.#child.send({ id, command })
    })
  }

  #settle(reply: LoadReply): void {
    this.#pending.get(reply.id)?.(reply)
    this.#pending.delete(reply.id)
  }
}

interface LoadReply {
  readonly id: number
  readonly value?: unknown
  readonly error?: string
}
