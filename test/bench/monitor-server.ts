import { createServer } from 'node:net'
import type { Socket } from 'node:net'
import { createInterface } from 'node:readline'
import type { MonitorReport } from './process-monitor.ts'

/** The probes in the measured processes, by process id. */
export interface MonitorServer {
  /** Where a probe reports to; the value of TOLLGATE_BENCH_MONITOR. */
  readonly path: string
  /** From here on delays and collections count, with a look every `gap` ms. Processes without a probe are left out. */
  begin(pids: readonly number[], intervalMs: number): Promise<void>
  end(pids: readonly number[]): Promise<readonly MonitorReport[]>
  /** Ends every process that still has a probe. */
  close(): void
}

export const openMonitorServer = (path: string): Promise<MonitorServer> => {
  const monitorsByPid = new Map<number, MonitorConnection>()
  const server = createServer(socket => {
    const probe = new MonitorConnection(socket)
    void probe.nextLine().then(pid => monitorsByPid.set(Number(pid), probe))
    socket.on('error', () => undefined) // its process has ended
    socket.on('close', () => {
      for (const [pid, each] of monitorsByPid) if (each === probe) monitorsByPid.delete(pid)
    })
  })
  const requestAll = (pids: readonly number[], command: string) =>
    Promise.all(pids.flatMap(pid => monitorsByPid.get(pid)?.request(command) ?? []))
  const monitorServer: MonitorServer = {
    path,
    begin: async (pids, gap) => void (await requestAll(pids, `begin ${gap}`)),
    end: async pids => (await requestAll(pids, 'end')).map(line => JSON.parse(line) as MonitorReport),
    close() {
      server.close()
      for (const probe of monitorsByPid.values()) probe.close()
    },
  }
  return new Promise((resolve, reject) => server.once('error', reject).listen(path, () => resolve(monitorServer)))
}

class MonitorConnection {
  readonly #socket: Socket
  readonly #lines: AsyncIterator<string>

  constructor(socket: Socket) {
    this.#socket = socket
    this.#lines = createInterface({ input: socket })[Symbol.asyncIterator]()
  }

  request(command: string): Promise<string> {
    this.#socket.write(command)
    return this.nextLine()
  }

  async nextLine(): Promise<string> {
    const { value, done } = await this.#lines.next()
    if (done === true) throw new Error('a measured process ended')
    return value
  }

  close(): void {
    this.#socket.destroy()
  }
}
