import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import type { Clock } from '../services/clock.ts'
import { sleep } from '../util/async.ts'
import { fillAcceptQueue, listeningHandleOf } from '../runtime/accept-queue.ts'
import type { QueueingHandle } from '../runtime/accept-queue.ts'
import { networkOf, parseAddressText } from '../util/address-set.ts'
import { createConnectionAddressReader } from './client-address.ts'
import type { FairScheduler } from './fair-scheduler.ts'
import type { ProxyProtocol } from './proxy-protocol.ts'
import { callerConnectionOf } from './caller-connection.ts'

interface PacingOptions {
  readonly scheduler: FairScheduler
  readonly trustedProxies: readonly string[]
  readonly isTls: boolean
  readonly proxyProtocol?: ProxyProtocol | undefined
}

/** The units of a new connection, besides those of what is read from it. Callers behind one address wait for each other's connections. */
const unitsPerConnection = 2

/** The units of a TLS handshake: 1 ms of CPU time with a key of RSA, which blocks the event loop. */
const unitsPerHandshake = 8

/** The owner of all TLS handshakes together, beside accounts and addresses: an attacker may have many addresses. */
const handshakesOwner = 'TLS handshakes'

/**
 * While an address (a /64 of IPv6) opens more connections than its share of the time allows, they are read in turn, and so are the TLS
 * handshakes of all addresses. Connections of trusted proxies, and those whose address a proxy does not know, are those of many callers, and
 * do not wait for each other.
 */
export const paceConnections = (server: Server, { scheduler, trustedProxies, isTls, proxyProtocol }: PacingOptions): void => {
  const readAddress = createConnectionAddressReader(trustedProxies, proxyProtocol)
  const units = isTls ? unitsPerHandshake : unitsPerConnection
  const enterForAddress = (socket: Socket): Promise<void> | undefined => {
    const address = readAddress(socket)
    return address === undefined ? undefined : scheduler.enter(networkOf(parseAddressText(address) ?? ''), units)
  }
  const enterForHandshake = (): Promise<void> | undefined => (isTls ? scheduler.enter(handshakesOwner, units) : undefined)
  if (isTls || proxyProtocol !== undefined) {
    holdConnections(server, socket => {
      const turn = enterForAddress(socket)
      return turn === undefined ? enterForHandshake() : turn.then(() => (socket.destroyed ? undefined : enterForHandshake()))
    })
  } else server.on('connection', (socket: Socket) => pauseConnection(socket, enterForAddress))
  proxyProtocol?.attach(server)
  server.on('connection', () => scheduler.recordConnection())
}

/** Undefined when the connection need not wait. */
type EnterConnection = (socket: Socket) => Promise<void> | undefined

/** Above the limit of connections, they have been destroyed. */
const pauseConnection = (socket: Socket, enter: EnterConnection): void => {
  const turn = socket.destroyed ? undefined : enter(socket)
  if (turn !== undefined) callerConnectionOf(socket).pauseUntil(turn)
}

/**
 * From now on, the server gets a connection when its turn has come. Not for long with plain HTTP, where the timeouts of the server are to hold for
 * connections that have waited; with TLS, or behind the header of a proxy, the first request may be read at once with what is in front of it.
 */
const holdConnections = (server: Server, enter: EnterConnection): void => {
  const listeners = server.listeners('connection')
  server.removeAllListeners('connection')
  const entered = new WeakSet<Socket>()
  server.on('connection', (socket: Socket) => {
    const serve = (): void => {
      for (const listener of listeners) Reflect.apply(listener, server, [socket])
    }
    // Its upgrade was ignored, and the server got it back.
    const turn = socket.destroyed || entered.has(socket) ? undefined : enter(socket)
    entered.add(socket)
    if (turn === undefined) return serve()
    socket.on('error', ignore)
    void turn.then(() => {
      socket.off('error', ignore)
      if (!socket.destroyed) serve()
    })
  })
}

const ignore = (): void => undefined

/** After so long without a new connection none is taken to wait. Meanwhile responses close their connections: who calls at shorter intervals loses no call. */
export const quietMs = 100
/** At most so many times: callers may open connections for ever. */
const maxQuietWaits = 5
/** libuv accepts one connection in a turn of the event loop: after so many turns without one, the system's queue is empty. */
const minQuietTurns = 2
/** At most so many turns. Twice what the system's queue holds. */
const maxAcceptTurns = 1024

/**
 * Resolves when no caller waits to be accepted: the system would reset their connections when listening ends, which is to be at once. New connections
 * are to be held: a caller who gets no response opens no further one. Returns what is to be called once listening has ended.
 */
export const whenQuiet = async (clock: Clock, acceptedCount: () => number, listening?: QueueingHandle): Promise<() => void> => {
  for (let [waits, before] = [0, -1]; waits < maxQuietWaits && before !== acceptedCount(); waits++) {
    before = acceptedCount()
    await sleep(clock, quietMs)
  }
  for (let [turns, quiet] = [0, 0]; quiet < minQuietTurns && turns < maxAcceptTurns; turns++) {
    const before = acceptedCount()
    await setImmediate()
    quiet = acceptedCount() === before ? quiet + 1 : 0
  }
  return fillAcceptQueue(listening, acceptedCount)
}

/**
 * Accepts the connections that callers have opened already. Listening is to end at once when the promise resolves, with what hands the connections to
 * the server once listening has ended, as Node.js 26 closes connections without a request when it ends.
 */
export const acceptPending = async (server: Server, clock: Clock): Promise<() => void> => {
  let acceptedCount = 0
  let serve = (): void => undefined
  const served = new Promise<void>(resolve => {
    serve = resolve
  })
  holdConnections(server, () => {
    acceptedCount += 1
    return served
  })
  const closeFillers = await whenQuiet(clock, () => acceptedCount, listeningHandleOf(server))
  return () => {
    closeFillers()
    serve()
  }
}
