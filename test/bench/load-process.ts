import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { LoadResult, LoadOptions } from './load/load-generator.ts'
import type { OpenCommand, LoadCommand } from './load/load-process-main.ts'

/** Open connections that carry one kind of call. */
export interface LoadSession {
  /** Rejects at the first wrong answer, and when answers stay away. */
  run(options: LoadOptions): Promise<LoadResult>
  close(): Promise<void>
}

/** The process that calls, seen from the benchmark. */
export class LoadProcess {
  readonly #child: ChildProcess
  readonly #pending = new Map<number, (answer: LoadReply) => void>()
  #lastId = 0

  constructor() {
    this.#child = fork(fileURLToPath(new URL('./load/load-process-main.js', import.meta.url)))
    this.#child.on('message', (answer: LoadReply) => this.#settle(answer))
    this.#child.on('exit', () => {
      for (const id of [...this.#pending.keys()]) this.#settle({ id, error: 'the load process ended' })
    })
  }

  async open(opening: Omit<OpenCommand, 'kind'>): Promise<LoadSession> {
    const session = (await this.#request({ kind: 'open', ...opening }, 60_000)) as number
    return {
      run: async pace => (await this.#request({ kind: 'run', session, options: pace }, pace.durationMs + 30_000)) as LoadResult,
      close: async () => void (await this.#request({ kind: 'close', session }, 10_000)),
    }
  }

  stop(): void {
    this.#child.kill()
  }

  #request(command: LoadCommand, timeoutMs: number): Promise<unknown> {
    const id = (this.#lastId += 1)
    return new Promise((resolve, reject) => {
      const timeout = setTimeout(() => this.#settle({ id, error: `no end of "${command.kind}" within ${timeoutMs} ms` }), timeoutMs)
      this.#pending.set(id, ({ value, error: fault }) => {
        clearTimeout(timeout)
        if (fault === undefined) resolve(value)
        else reject(new Error(fault))
      })
      this.#child.send({ id, order: command })
    })
  }

  #settle(answer: LoadReply): void {
    this.#pending.get(answer.id)?.(answer)
    this.#pending.delete(answer.id)
  }
}

interface LoadReply {
  readonly id: number
  readonly value?: unknown
  readonly error?: string
}
