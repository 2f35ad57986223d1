import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import type { Address, GatewayConfig } from '../config/types.ts'
import type { Gateway, GoodConfig } from '../gateway.ts'
import { openAdmin } from '../server/index.ts'
import { urlOf } from '../server/listen.ts'
import { openAgents } from '../services/agents/index.ts'
import { openRoom } from '../services/agents/room.ts'
import { systemClock } from '../services/clock.ts'
import type { Log } from '../services/log.ts'
import { merge, openMetrics } from '../services/metrics.ts'
import type { OpenMetrics } from '../services/metrics.ts'
import { openHeights } from '../store/open.ts'
import { openCrew } from './crew.ts'
import { Desk } from './desk.ts'
import { portVariable } from './port.ts'

/**
 * Several workers behind one port. The admin listener is the primary's, and it asks nodes for their heads. Rejects with
 * ListenFault, SpawnFault or CrewFault.
 */
export const openPrimary = async ({ gateway, networks }: GoodConfig, dir: string, log: Log): Promise<Pick<Gateway, 'urls' | 'stop'>> => {
  const rpc = await settlePort(gateway.listen.rpc)
  const env = { [portVariable]: String(rpc.port) }
  const metrics = openMetrics()
  const heads = await openDesk(gateway, log, metrics)
  const { desk } = heads
  const patience = gateway.drain + spare
  const plan = { exec: process.argv[1] ?? '', args: ['start', '--config', dir], env, size: gateway.workers, patience, desk }
  const crew = await openCrew(plan, systemClock, log).catch(async (fault: unknown) => {
    await heads.close()
    throw fault
  })
  let draining = false
  const health = {
    isReady: () => !draining && crew.ready > 0,
    networks: () => networks.map(({ name }) => ({ name, ...desk.statusOf(name) })),
    metrics: async () => merge([...(await crew.metrics()), metrics.families()]),
  }
  const admin =
    gateway.listen.admin &&
    (await openAdmin(gateway.listen.admin, health, log).catch(async (fault: unknown) => {
      await crew.stop()
      await heads.close()
      throw fault
    }))
  return {
    urls: { rpc: urlOf(rpc.host, rpc.port), ...(admin && { admin: admin.url }) },
    async stop() {
      draining = true
      await crew.stop()
      await heads.close()
      await admin?.stop()
    },
  }
}

/** What a worker may take, in ms, to end when its calls have: leases go back to a store that may be slow. */
const spare = 10_000

/** Bytes of nodes' answers about their heads. */
const room = 67_108_864

const openDesk = async ({ store }: GatewayConfig, log: Log, metrics: OpenMetrics): Promise<{ desk: Desk; close(): Promise<void> }> => {
  const clock = systemClock
  const heights = await openHeights(store, clock)
  const agents = openAgents(clock, openRoom(room))
  const desk = new Desk({ agents, clock, log, metrics, newsOf: heights.newsOf })
  return {
    desk,
    async close() {
      desk.stop()
      await Promise.all([agents.close(), heights.close()])
    },
  }
}

/** A worker that is replaced must find the port that its gateway began with, so a free one is chosen here. */
const settlePort = (address: Address): Promise<Address> => {
  if (address.port !== 0) return Promise.resolve(address)
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', reject)
    probe.listen(0, address.host, () => {
      const { port } = probe.address() as AddressInfo // a TCP server has no other kind of address
      probe.close(() => resolve({ ...address, port }))
    })
  })
}
