import { connect, isIP } from 'node:net'
import type { OnReadOpts, Socket, TcpNetConnectOpts } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { ConnectionOptions } from 'node:tls'
import { getWasmModule } from '../../../json/wasm-module.ts'
import { createCoalescingLookup } from '../coalescing-lookup.ts'
import { noSocketLeft } from '../network-errors.ts'
import { withoutBrackets } from '../../../util/host-name.ts'

interface SocketEvents {
  /** The connection is there, and encrypted if it is to be. */
  onOpen(): void
  /** The first bytes of the buffer are what has arrived; they are valid during the call only. */
  readonly onRead: OnReadOpts['callback']
  /** The other side has ended the connection. */
  onEnd(): void
  onError(error: Error): void
}

/** Bytes that one system call reads at most, where the socket has a buffer of its own or there is no WebAssembly; as in Node.js. */
const ownBufferBytes = 65_536

/**
 * All sockets read into the same memory, as each chunk is consumed before the next is read: into that of WebAssembly, which scans the
 * bytes without copying them. On Windows the system gets the memory beforehand, so that each socket needs its own.
 */
const getReadBuffer = (): Buffer =>
  process.platform === 'win32'
    ? Buffer.allocUnsafeSlow(ownBufferBytes)
    : (sharedReadBuffer ??= getWasmModule()?.readBuffer ?? Buffer.allocUnsafeSlow(ownBufferBytes))

let sharedReadBuffer: Buffer | undefined

const tcpKeepAliveDelayMs = 60_000

/** The part of a SocketLimit that concerns a new socket. */
interface SocketCount {
  makeRoom(): boolean
  add(socket: object): void
  remove(socket: object): void
}

/** Connects to one origin. */
export class SocketConnector {
  readonly #address: TcpNetConnectOpts
  readonly #isTls: boolean
  readonly #limit: SocketCount
  /** The TLS session that the node gave out last, which saves the next connection a round trip and most of the handshake. */
  #session: Buffer | undefined

  constructor(origin: string, limit: SocketCount) {
    const { protocol, hostname, port } = new URL(origin)
    const host = withoutBrackets(hostname)
    this.#isTls = protocol === 'https:'
    this.#address = {
      host,
      port: Number(port || (this.#isTls ? 443 : 80)),
      lookup: createCoalescingLookup(),
    }
    this.#limit = limit
  }

  /** Undefined where the limit of sockets is reached, and onError() is called soon. */
  connect(events: SocketEvents): Socket | undefined {
    if (!this.#limit.makeRoom()) {
      queueMicrotask(() => events.onError(noSocketLeft()))
      return undefined
    }
    const socket = this.#open({ buffer: getReadBuffer(), callback: events.onRead })
    this.#limit.add(socket)
    // Not as options of the connection: those are ignored with TLS.
    socket.once('connect', () => socket.setNoDelay(true).setKeepAlive(true, tcpKeepAliveDelayMs))
    socket.once(this.#isTls ? 'secureConnect' : 'connect', () => events.onOpen())
    socket.once('end', () => events.onEnd())
    socket.on('error', error => events.onError(error))
    socket.once('close', () => {
      this.#limit.remove(socket)
      events.onEnd()
    })
    return socket
  }

  /** Closes a socket that it has connected: what is to be connected next may take its place. */
  close(socket: Socket): void {
    socket.destroy()
    this.#limit.remove(socket)
  }

  #open(onread: OnReadOpts): Socket {
    if (!this.#isTls) return connect({ ...this.#address, onread })
    const { host = '' } = this.#address
    const options: ConnectionOptions & { readonly onread: OnReadOpts } = {
      ...this.#address,
      onread,
      ...(this.#session === undefined ? {} : { session: this.#session }),
      servername: isIP(host) === 0 ? host : '',
      ALPNProtocols: ['http/1.1'],
    }
    return connectTls(options).on('session', session => {
      this.#session = session
    })
  }
}
