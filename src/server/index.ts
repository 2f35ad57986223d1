import type { Server } from 'node:http'
import type { Address, GatewayConfig } from '../config/types.ts'
import type { Network } from '../network.ts'
import type { Room } from '../services/agents/room.ts'
import type { Clock } from '../services/clock.ts'
import type { Log } from '../services/log.ts'
import type { Metrics } from '../services/metrics.ts'
import type { Door } from '../wire/answer.ts'
import { openReader } from '../wire/message.ts'
import type { Health } from './admin.ts'
import { answerStrangers } from './bare.ts'
import { Traffic } from './door.ts'
import type { Doors, Served } from './door.ts'
import { createRpcListener } from './http.ts'
import { lazily } from './lazily.ts'
import { closeServer, createHttpServer, listen } from './listen.ts'
import { countAnswers } from './send.ts'
import { openTidy } from './tidy.ts'
import { openDate } from './whole.ts'
import { Sockets } from './ws.ts'

/** A listener. */
export interface Listening {
  readonly url: string
  stop(): Promise<void>
}

/** The RPC listener, which can stop taking calls before it stops. */
export interface RpcListening extends Listening {
  readonly isDraining: boolean
}

export interface Serving {
  readonly config: Pick<GatewayConfig, 'listen' | 'limits' | 'drain'>
  readonly networks: readonly Network[]
  readonly room: Room
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

/** Opens the RPC listener: HTTP and WebSocket. Rejects with ListenFault, nothing left open. */
export const openRpc = async ({ config, networks, room, clock, log, metrics }: Serving): Promise<RpcListening> => {
  const door = { read: openReader(config.limits), limits: config.limits, log }
  const byHost = new Map(networks.flatMap(network => serveAt(network, door)))
  const traffic = new Traffic()
  const doors: Doors = {
    networkAt: host => byHost.get(host),
    limits: config.limits,
    log,
    traffic,
    room,
    tidy: openTidy(),
    date: openDate(clock),
    answered: countAnswers(metrics),
  }
  const listener = createRpcListener(doors)
  const server = createHttpServer(listener)
  answerStrangers(server, doors, listener)
  const url = await listen(server, config.listen.rpc)
  const sockets = new Sockets(server, doors, clock)
  return {
    url,
    get isDraining() {
      return traffic.draining
    },
    stop: () => drain(doors, server, sockets, clock, config.drain),
  }
}

const serveAt = ({ name, hosts, admit, run }: Network, door: Omit<Door, 'run'>): [host: string, Served][] =>
  hosts.map(host => [host, { name, admit, door: { ...door, run } }])

/** Opens the admin listener. Rejects with ListenFault. */
export const openAdmin = async (address: Address, health: Health, log: Log): Promise<Listening> => {
  const server = createHttpServer(lazily(async () => (await import('./admin.ts')).createAdminApp(health, log).callback()))
  return { url: await listen(server, address), stop: () => closeServer(server) }
}

/** No new calls; those in flight finish, until the deadline; sockets close with 1001 after theirs, and have 1 s to say so. */
const drain = async ({ traffic, log }: Doors, server: Server, sockets: Sockets, clock: Clock, deadline: number): Promise<void> => {
  traffic.draining = true
  const closed = closeServer(server)
  sockets.end()
  const isLate = await Promise.race([traffic.quiet().then(() => false), wait(clock, deadline).then(() => true)])
  if (isLate) log.warn({}, 'some calls were still running at the drain deadline')
  sockets.close()
  server.closeIdleConnections()
  await Promise.race([closed, wait(clock, isLate ? 0 : 1000)])
  sockets.terminate()
  server.closeAllConnections()
  await closed
}

const wait = (clock: Clock, ms: number): Promise<void> => new Promise(resolve => void clock.after(ms, resolve))
