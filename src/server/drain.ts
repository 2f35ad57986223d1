import type { Server } from 'node:http'
import { setImmediate } from 'node:timers/promises'
import type { Clock } from '../services/clock.ts'
import { sleep, withTimeoutOr } from '../util/async.ts'
import { acceptPending } from './connection-pacing.ts'
import { closeServer } from './http-server.ts'
import type { OpenConnections } from './open-connections.ts'
import type { RpcServices } from './rpc-services.ts'
import type { WsServer } from './ws-server.ts'

interface DrainOptions {
  readonly server: Server
  readonly connections: OpenConnections
  readonly wsServer: WsServer
  readonly clock: Clock
  readonly timeoutMs: number
}

/** No new calls. Calls in flight finish, until the deadline; WebSockets close with 1001 after theirs, and have `closeHandshakeMs` for that handshake. */
export const drain = async (
  { activeRequests, scheduler, log }: RpcServices,
  { server, connections, wsServer, clock, timeoutMs }: DrainOptions,
): Promise<void> => {
  activeRequests.isDraining = true
  scheduler.readAll()
  const serveAccepted = await acceptPending(server, clock)
  const closed = closeServer(server)
  serveAccepted()
  wsServer.drain()
  const finish = async (): Promise<boolean> => {
    // What the latest connections have sent is read first, each in its turn. A timer of the clock would not keep the process alive.
    await setImmediate()
    for (let isWaiting = true; isWaiting; ) {
      isWaiting = scheduler.waitingCount > 0
      for (let turns = 0; turns < 2; turns++) await setImmediate()
      await activeRequests.whenIdle()
    }
    return false
  }
  const isTimedOut = await Promise.race([finish(), sleep(clock, timeoutMs).then(() => true)])
  activeRequests.isGivenUp = isTimedOut
  if (isTimedOut) log.warn({}, 'some calls were still running at the drain deadline')
  wsServer.close()
  server.closeIdleConnections()
  await Promise.race([closed, sleep(clock, isTimedOut ? 0 : closeHandshakeMs)])
  wsServer.terminate()
  connections.destroyAll()
  await closed
  // Node reports that the server has closed before it reports the connections, which cancel their calls.
  if (isTimedOut) await withTimeoutOr(clock, cancelTimeoutMs, activeRequests.whenIdle(), () => undefined)
}

const closeHandshakeMs = 1_000
/** What has been canceled is recorded within this time, but for what a plugin does not end. */
const cancelTimeoutMs = 1_000
