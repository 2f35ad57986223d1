import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Server, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { NetworkNamespace } from './network-namespace.ts'
import { localPlace } from './redis-server.ts'

/** A way to servers of this machine that takes as long as one to another region. */
export interface Distance {
  /** All that is sent is lost from now on. Connections stay open, and nobody is told. */
  cut(): void
  /** New connections succeed again; those from before are closed. */
  heal(): void
  remove(): Promise<void>
}

/** Forwards connections: bytes, and the end of a connection, arrive half a round trip later. The first bytes wait for the handshake too. */
class DelayingProxy implements Distance {
  readonly server: Server
  readonly #port: number
  readonly #roundTripMs: number
  readonly #sockets = new Set<Socket>()
  #isCut = false

  constructor(port: number, roundTripMs: number) {
    this.#port = port
    this.#roundTripMs = roundTripMs
    this.server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, near => this.#add(near, () => this.#open(near)))
  }

  cut(): void {
    this.#isCut = true
  }

  heal(): void {
    this.#isCut = false
    for (const socket of this.#sockets) socket.destroy()
  }

  async remove(): Promise<void> {
    this.server.close()
    this.heal()
    await once(this.server, 'close')
  }

  #open(near: Socket): void {
    if (near.destroyed) return
    const far = connect({ port: this.#port, host: localPlace.host, allowHalfOpen: true, noDelay: true })
    this.#add(far, () => undefined)
    this.#forward(near, far)
    this.#forward(far, near)
    near.resume()
  }

  /** `ready` is called after the round trip of a handshake. */
  #add(socket: Socket, ready: () => void): void {
    this.#sockets.add(socket)
    socket.once('close', () => this.#sockets.delete(socket))
    // Its other end closes too, as a connection that is lost does.
    socket.on('error', () => undefined)
    this.#later(this.#roundTripMs, ready)
  }

  #forward(from: Socket, to: Socket): void {
    const halfMs = this.#roundTripMs / 2
    from.on('data', bytes => this.#later(halfMs, () => void (to.destroyed || to.write(bytes))))
    from.on('end', () => this.#later(halfMs, () => void to.end()))
    from.on('close', () => this.#later(halfMs, () => void to.destroy()))
  }

  /** Timers of one duration run in the order in which they were set. */
  #later(ms: number, run: () => void): void {
    setTimeout(() => void (this.#isCut || run()), ms)
  }
}

export interface DistantServer extends Distance {
  /** On 127.0.0.1. */
  readonly port: number
}

/** The server of a port of 127.0.0.1, so far away. */
export const startDistantServer = async (port: number, roundTripMs: number): Promise<DistantServer> => {
  const proxy = new DelayingProxy(port, roundTripMs)
  await once(proxy.server.listen(0, localPlace.host), 'listening')
  return {
    port: (proxy.server.address() as AddressInfo).port, // of a server that listens
    cut: () => proxy.cut(),
    heal: () => proxy.heal(),
    remove: () => proxy.remove(),
  }
}

/** Processes of the namespace reach these ports of this machine's 127.0.0.1 under the same addresses, so far away. */
export const startDistance = async (namespace: NetworkNamespace, ports: readonly number[], roundTripMs: number): Promise<Distance> => {
  const dir = mkdtempSync(join(tmpdir(), 'tollgate-distance-'))
  const proxies = ports.map(port => new DelayingProxy(port, roundTripMs))
  for (const [i, { server }] of proxies.entries()) await once(server.listen(socketPath(dir, ports[i] ?? 0)), 'listening')
  const [program = '', ...args] = [...namespace.command, process.execPath, relayPath, dir, ...ports.map(String)]
  const relay = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const end = () => void relay.kill('SIGKILL')
  process.once('exit', end)
  await once(createInterface(relay.stdout), 'line')
  return {
    cut: () => proxies.forEach(proxy => proxy.cut()),
    heal: () => proxies.forEach(proxy => proxy.heal()),
    async remove() {
      process.off('exit', end)
      end()
      await Promise.all(proxies.map(proxy => proxy.remove()))
      rmSync(dir, { recursive: true, force: true })
    },
  }
}

/** Files are of all namespaces. */
export const socketPath = (dir: string, port: number): string => join(dir, `${port}.sock`)

const relayPath = fileURLToPath(new URL('distance-relay-main.js', import.meta.url))
