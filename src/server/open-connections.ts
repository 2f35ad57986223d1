import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { socketBelow } from '../runtime/http-internals.ts'
import { refuse } from '../plugin/reply.ts'
import type { ConnectionPeer, RefusedSockets, SocketRefusal } from '../services/socket-limits.ts'
import { networkOf, parseAddressText } from '../util/address-set.ts'
import { getOrCreate } from '../util/memoize.ts'
import type { ReadConnectionAddress } from './read-pacing.ts'

interface OpenConnectionsOptions extends Pick<RefusedSockets, 'recordRefused'> {
  /** Whose connections they are. */
  readonly peer: ConnectionPeer
  readonly maxConnections: number
  readonly readAddress: ReadConnectionAddress
}

/** What a connection is used for. */
interface ConnectionUser {
  /** Calls have been read from it that are not answered. */
  readonly isAnswering: boolean
  /** Closes the idle connection, as another is opened in its place. Without it, the socket is destroyed. */
  closeForAnother?(): void
}

const connectionBySocket = new WeakMap<Socket, OpenConnection>()

/** Undefined where the socket is not that of a caller, or its connection is closed. With TLS, the socket may be that of TLS or the one below. */
export const openConnectionOf = (socket: Socket): OpenConnection | undefined => connectionBySocket.get(socketBelow(socket))

/** The refusal of a connection with which the account would hold more than its share. */
export const tooManyConnections = refuse('unavailable', {
  source: 'gateway',
  fault: 'gateway',
  retryAfter: 1,
  message: 'the account has too many open connections; retry later',
  cause: 'limits.connections',
})

/**
 * The open connections of a server. With TLS they are those below, from before the handshake on, which Node's closeAllConnections() leaves.
 *
 * They are shared out as memory is: an account, and an address until its key is known, opens more only while it holds fewer than are free. When
 * none is free, an idle connection of whoever holds most is closed for another holder. Connections without an account count together there: an
 * attacker may have many addresses.
 */
export class OpenConnections {
  readonly #options: OpenConnectionsOptions
  readonly #open = new Set<OpenConnection>()
  /** Those of no account, the oldest first. */
  readonly #withoutAccount = new Set<OpenConnection>()
  readonly #accounts = new Holders()
  readonly #addresses = new Holders()

  constructor(server: Server, options: OpenConnectionsOptions) {
    this.#options = options
    server.on('error', ({ code = '' }: NodeJS.ErrnoException) => options.recordRefused(options.peer, { code }))
    server.prependListener('connection', (socket: Socket) => this.#accept(socket))
  }

  get count(): number {
    return this.#open.size
  }

  /** Accounts and addresses that hold connections. */
  get holderCount(): number {
    return this.#accounts.size + this.#addresses.size
  }

  destroyAll(): void {
    for (const { socket } of this.#open) socket.destroy()
  }

  /** A proxy has sent the address of the caller. The connection is closed where that holds its share. */
  recordAddress(socket: Socket): void {
    const connection = openConnectionOf(socket)
    const address = this.#addressOf(socket)
    if (connection === undefined || connection.holder.name === address) return
    if (!this.#move(connection, this.#addresses, address, this.#addresses.maxCount)) this.#refuse(socket, 'share', address)
  }

  /** False where the account holds its share: the connection is to be closed. HTTP of a proxy, or of several accounts, has calls of others. */
  setAccount(connection: OpenConnection, account: string, { isWebSocket }: { readonly isWebSocket: boolean }): boolean {
    const { holders, holder } = connection
    if (holders === this.#accounts && holder.name === account) return true
    const maxCount = Math.max(this.#accounts.maxCount, this.#withoutAccount.size)
    const isMoved = this.#move(connection, this.#accounts, account, maxCount)
    if (isMoved) this.#withoutAccount.delete(connection)
    if (isMoved || (!isWebSocket && (holders === this.#accounts || holder.name === manyCallers))) return true
    this.#recordRefused('share', account)
    return false
  }

  #accept(socket: Socket): void {
    if (openConnectionOf(socket) !== undefined) return // its upgrade was ignored, and the server got it back
    const address = this.#addressOf(socket)
    const refusal = this.#makeRoom(address)
    if (refusal !== undefined) return this.#refuse(socket, refusal, address)
    const connection = new OpenConnection(this, socket, this.#addresses, this.#addresses.get(address))
    connectionBySocket.set(socket, connection)
    this.#open.add(connection)
    this.#withoutAccount.add(connection)
    this.#addresses.add(connection)
    socket.once('close', () => this.#remove(connection))
  }

  /** Undefined when the address may open one more; another may have been closed for it. */
  #makeRoom(address: string): SocketRefusal | undefined {
    const heldCount = address === manyCallers ? 0 : this.#addresses.countOf(address)
    const free = this.#options.maxConnections - this.#open.size
    if (free > 0) return heldCount < free ? undefined : 'share'
    const replaced = this.#findReplaceable(heldCount)
    if (replaced === undefined) return heldCount > 0 ? 'share' : 'limit'
    this.#recordRefused('replaced', replaced.holder.name)
    this.#remove(replaced)
    replaced.closeForAnother()
    return undefined
  }

  /** Of whoever holds more than the address would; for the first one of an address, also the oldest without an account. */
  #findReplaceable(heldCount: number): OpenConnection | undefined {
    return (
      this.#accounts.findIdle(Math.max(heldCount + 1, this.#withoutAccount.size)) ??
      this.#addresses.findIdle(heldCount + 1) ??
      (heldCount === 0 ? firstIdle(this.#withoutAccount) : undefined)
    )
  }

  /** False where the holder has its share: as many as would be free without the connection, and nobody else holds more than it would: `maxCount`. */
  #move(connection: OpenConnection, holders: Holders, name: string, maxCount: number): boolean {
    const heldCount = holders.countOf(name)
    const free = this.#options.maxConnections - this.#open.size + 1
    if (heldCount > 0 && heldCount >= free && heldCount + 1 >= maxCount) return false
    if (!this.#open.has(connection)) return true // it is being closed
    if (connection.holders === holders && heldCount === 0 && connection.holder.connections.size === 1) {
      holders.rename(connection.holder, name)
      return true
    }
    connection.holders.remove(connection)
    connection.holders = holders
    connection.holder = holders.get(name)
    holders.add(connection)
    return true
  }

  #remove(connection: OpenConnection): void {
    if (!this.#open.delete(connection)) return
    connectionBySocket.delete(connection.socket)
    this.#withoutAccount.delete(connection)
    connection.holders.remove(connection)
  }

  /** That of the connection, a /64 of IPv6. */
  #addressOf(socket: Socket): string {
    const address = this.#options.readAddress(socket)
    return address === undefined ? manyCallers : networkOf(parseAddressText(address) ?? manyCallers)
  }

  #refuse(socket: Socket, reason: SocketRefusal, address: string): void {
    this.#recordRefused(reason, address)
    socket.destroy()
  }

  #recordRefused(reason: SocketRefusal, holder: string): void {
    this.#options.recordRefused(this.#options.peer, reason, holder === manyCallers ? undefined : holder)
  }
}

/** In place of an address: that of the callers of trusted proxies, and of those whose address is not known. */
const manyCallers = ''

/** Whoever has connections open. */
interface Holder {
  name: string
  /** Those that have not been used for the longest time first. */
  readonly connections: Set<OpenConnection>
}

const firstIdle = (connections: Iterable<OpenConnection>): OpenConnection | undefined => {
  for (const connection of connections) if (connection.user?.isAnswering !== true) return connection
  return undefined
}

export class OpenConnection {
  readonly socket: Socket
  /** Set once a request has come. */
  user: ConnectionUser | undefined
  /** These two are changed by OpenConnections alone. */
  holders: Holders
  holder: Holder
  readonly #all: OpenConnections

  constructor(all: OpenConnections, socket: Socket, holders: Holders, holder: Holder) {
    this.#all = all
    this.socket = socket
    this.holders = holders
    this.holder = holder
  }

  /** The account of a request is known; see OpenConnections. For the same account again it takes some ns. */
  setAccount(account: string, use: { readonly isWebSocket: boolean }): boolean {
    return this.#all.setAccount(this, account, use)
  }

  /** Of the connections of its holder, it is the last to be closed now. */
  recordUse(): void {
    const { connections } = this.holder
    if (connections.size > 1 && connections.delete(this)) connections.add(this)
  }

  closeForAnother(): void {
    if (this.user?.closeForAnother === undefined) this.socket.destroy()
    else this.user.closeForAnother()
  }
}

/** Holders by name, and by the number of their connections: whoever holds most is found at once. One without connections is forgotten. */
class Holders {
  readonly #byName = new Map<string, Holder>()
  readonly #byCount = new Map<number, Set<Holder>>()
  /** Of whoever holds most. */
  maxCount = 0

  get size(): number {
    return this.#byName.size
  }

  countOf(name: string): number {
    return this.#byName.get(name)?.connections.size ?? 0
  }

  /** To be asked for when a connection is added. */
  get(name: string): Holder {
    return getOrCreate(this.#byName, name, newHolder)
  }

  add(connection: OpenConnection): void {
    const { connections } = connection.holder
    connections.add(connection)
    this.#rank(connection.holder, connections.size - 1)
  }

  remove(connection: OpenConnection): void {
    const { name, connections } = connection.holder
    connections.delete(connection)
    this.#rank(connection.holder, connections.size + 1)
    if (connections.size === 0) this.#byName.delete(name)
  }

  /** Nobody has the new name yet. Accounts that call in turn on one connection need no new holder for each call. */
  rename(holder: Holder, name: string): void {
    this.#byName.delete(holder.name)
    holder.name = name
    this.#byName.set(name, holder)
  }

  /** Of those that hold more than `count`: the longest idle connection of whoever holds most, and has an idle one. */
  findIdle(count: number): OpenConnection | undefined {
    for (let held = this.maxCount; held > count; held--) {
      for (const { connections } of this.#byCount.get(held) ?? []) {
        const idle = firstIdle(connections)
        if (idle !== undefined) return idle
      }
    }
    return undefined
  }

  #rank(holder: Holder, previousCount: number): void {
    const count = holder.connections.size
    const previous = this.#byCount.get(previousCount)
    previous?.delete(holder)
    if (previous?.size === 0) this.#byCount.delete(previousCount)
    if (count > 0) getOrCreate(this.#byCount, count, newSet).add(holder)
    if (count > this.maxCount || !this.#byCount.has(this.maxCount)) this.maxCount = count
  }
}

const newHolder = (name: string): Holder => ({ name, connections: new Set() })

const newSet = (): Set<Holder> => new Set()
