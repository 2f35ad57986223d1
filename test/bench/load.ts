import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Loaded, Pace } from './load/drive.ts'
import type { Opening, Order } from './load/main.ts'

/** Open connections that carry one kind of call. */
export interface Session {
  /** Rejects at the first wrong answer, and when answers stay away. */
  run(pace: Pace): Promise<Loaded>
  close(): Promise<void>
}

/** The process that calls, seen from the benchmark. */
export class Load {
  readonly #child: ChildProcess
  readonly #waiting = new Map<number, (answer: Answer) => void>()
  #last = 0

  constructor() {
    this.#child = fork(fileURLToPath(new URL('./load/main.js', import.meta.url)))
    this.#child.on('message', (answer: Answer) => this.#settle(answer))
    this.#child.on('exit', () => {
      for (const id of [...this.#waiting.keys()]) this.#settle({ id, fault: 'the load process ended' })
    })
  }

  async open(opening: Omit<Opening, 'kind'>): Promise<Session> {
    const session = (await this.#give({ kind: 'open', ...opening }, 60_000)) as number
    return {
      run: async pace => (await this.#give({ kind: 'run', session, pace }, pace.ms + 30_000)) as Loaded,
      close: async () => void (await this.#give({ kind: 'close', session }, 10_000)),
    }
  }

  stop(): void {
    this.#child.kill()
  }

  #give(order: Order, limit: number): Promise<unknown> {
    const id = (this.#last += 1)
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => this.#settle({ id, fault: `no end of "${order.kind}" within ${limit} ms` }), limit)
      this.#waiting.set(id, ({ value, fault }) => {
        clearTimeout(late)
        if (fault === undefined) resolve(value)
        else reject(new Error(fault))
      })
      this.#child.send({ id, order })
    })
  }

  #settle(answer: Answer): void {
    this.#waiting.get(answer.id)?.(answer)
    this.#waiting.delete(answer.id)
  }
}

interface Answer {
  readonly id: number
  readonly value?: unknown
  readonly fault?: string
}
