import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import type { Address } from '../config/types.ts'
import type { Gateway, GoodConfig } from '../gateway.ts'
import { openAdmin } from '../server/index.ts'
import { urlOf } from '../server/listen.ts'
import { systemClock } from '../services/clock.ts'
import type { Log } from '../services/log.ts'
import { addUp } from '../services/metrics.ts'
import { openCrew } from './crew.ts'

/** Several workers behind one port; the admin listener is the primary's. Rejects with ListenFault or CrewFault. */
export const openPrimary = async (
  { gateway, networks }: GoodConfig, dir: string, log: Log,
): Promise<Pick<Gateway, 'urls' | 'stop'>> => {
  const rpc = await settlePort(gateway.listen.rpc)
  const env = { [portVariable]: String(rpc.port) }
  const plan = { exec: process.argv[1] ?? '', args: ['start', '--config', dir], env, size: gateway.workers }
  const crew = await openCrew(plan, systemClock, log)
  let draining = false
  const health = {
    isReady: () => !draining && crew.ready > 0,
    networks: () => networks.map(({ name }) => ({ name })),
    metrics: async () => addUp(await crew.metrics()),
  }
  const admin = gateway.listen.admin && await openAdmin(gateway.listen.admin, health).catch(async (fault: unknown) => {
    await crew.stop()
    throw fault
  })
  return {
    urls: { rpc: urlOf(rpc.host, rpc.port), ...admin && { admin: admin.url } },
    async stop() {
      draining = true
      await crew.stop()
      await admin?.stop()
    },
  }
}

/** Where the primary tells its workers which port `0` has become. */
export const portVariable = 'TOLLGATE_RPC_PORT'

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
