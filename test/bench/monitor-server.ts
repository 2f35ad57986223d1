import { createServer } from 'node:net'
import type { Socket } from 'node:net'
import { createInterface } from 'node:readline'
import type { MonitorReport } from './process-monitor.ts'

/** Controls the process monitors in the measured processes. */
export interface MonitorServer {
  /** The socket that process monitors connect to; the value of TOLLGATE_BENCH_MONITOR. */
  readonly path: string
  /** Starts a measurement with a sample every `intervalMs`. Processes without a monitor are skipped. */
  begin(pids: readonly number[], intervalMs: number): Promise<void>
  /** Ends the measurement. */
  end(pids: readonly number[]): Promise<readonly MonitorReport[]>
  /** What these processes keep in memory after a garbage collection. */
  liveBytes(pids: readonly number[]): Promise<number>
  /** Ends every process that still has a monitor. */
  close(): void
}

export const openMonitorServer = (path: string): Promise<MonitorServer> => {
  const monitorsByPid = new Map<number, MonitorConnection>()
  const server = createServer(socket => {
    const monitor = new MonitorConnection(socket)
    void monitor.nextLine().then(pid => monitorsByPid.set(Number(pid), monitor))
    socket.on('error', () => undefined) // the process has ended
    socket.on('close', () => {
      for (const [pid, each] of monitorsByPid) if (each === monitor) monitorsByPid.delete(pid)
    })
  })
  const requestAll = (pids: readonly number[], command: string) =>
    Promise.all(pids.flatMap(pid => monitorsByPid.get(pid)?.request(command) ?? []))
  const monitorServer: MonitorServer = {
    path,
    begin: async (pids, intervalMs) => void (await requestAll(pids, `begin ${intervalMs}`)),
    end: async pids => (await requestAll(pids, 'end')).map(line => JSON.parse(line) as MonitorReport),
    liveBytes: async pids => (await requestAll(pids, 'live')).reduce((sum, line) => sum + Number(line), 0),
    close() {
      server.close()
      for (const monitor of monitorsByPid.values()) monitor.close()
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
