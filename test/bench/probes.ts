import { createServer } from 'node:net'
import type { Socket } from 'node:net'
import { createInterface } from 'node:readline'
import type { Heard } from './probe.ts'

/** The probes in the measured processes, by process id. */
export interface Probes {
  /** Where a probe reports to; the value of TOLLGATE_BENCH_PROBE. */
  readonly path: string
  /** From here on delays and collections count, with a look every `gap` ms. Processes without a probe are left out. */
  begin(pids: readonly number[], gap: number): Promise<void>
  end(pids: readonly number[]): Promise<readonly Heard[]>
  /** Ends every process that still has a probe. */
  close(): void
}

export const openProbes = (path: string): Promise<Probes> => {
  const open = new Map<number, Probe>()
  const server = createServer(socket => {
    const probe = new Probe(socket)
    void probe.next().then(pid => open.set(Number(pid), probe))
    socket.on('error', () => undefined) // its process has ended
    socket.on('close', () => {
      for (const [pid, each] of open) if (each === probe) open.delete(pid)
    })
  })
  const ask = (pids: readonly number[], order: string) => Promise.all(pids.flatMap(pid => open.get(pid)?.ask(order) ?? []))
  const probes: Probes = {
    path,
    begin: async (pids, gap) => void (await ask(pids, `begin ${gap}`)),
    end: async pids => (await ask(pids, 'end')).map(line => JSON.parse(line) as Heard),
    close() {
      server.close()
      for (const probe of open.values()) probe.close()
    },
  }
  return new Promise((resolve, reject) => server.once('error', reject).listen(path, () => resolve(probes)))
}

class Probe {
  readonly #socket: Socket
  readonly #lines: AsyncIterator<string>

  constructor(socket: Socket) {
    this.#socket = socket
    this.#lines = createInterface({ input: socket })[Symbol.asyncIterator]()
  }

  ask(order: string): Promise<string> {
    this.#socket.write(order)
    return this.next()
  }

  async next(): Promise<string> {
    const { value, done } = await this.#lines.next()
    if (done === true) throw new Error('a measured process ended')
    return value
  }

  close(): void {
    this.#socket.destroy()
  }
}
