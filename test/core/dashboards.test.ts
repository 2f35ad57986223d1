import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import t from '../support/tap.ts'
import { plugins } from '../../plugins/index.ts'
import { loadValidConfig } from '../../src/cli/gateway-process.ts'
import { openDashboards } from '../../src/core/dashboards.ts'
import type { DashboardSource } from '../../src/core/dashboards.ts'
import { closeAll } from '../../src/core/open-services.ts'
import type { Closers } from '../../src/core/open-services.ts'
import { openAccessLog } from '../../src/services/access-log.ts'
import { openLog } from '../../src/services/log.ts'
import { createMetricsRegistry } from '../../src/services/metrics.ts'
import { lazyStore } from '../../src/store/lazy-store.ts'
import { createDeployment, networkFile } from '../support/deployment.ts'
import { TestClock } from '../support/fakes.ts'

const adminToken = '0123456789abcdef0123456789abcdef'

t.test('where the port of the admin listener is in use, nothing that runs beside it goes on', async t => {
  const other = createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  const admin = `127.0.0.1:${(other.address() as AddressInfo).port}`
  const deployment = createDeployment({
    gateway: { listen: { rpc: '127.0.0.1:0', admin }, admin: { token: '${ADMIN_TOKEN}' } },
    networks: { testnet: networkFile('testnet', ['http://127.0.0.1:9']) },
  })
  t.teardown(async () => {
    other.close()
    await deployment.remove()
  })
  const config = await loadValidConfig(deployment.dir, plugins, { env: { ADMIN_TOKEN: adminToken }, err: line => t.fail(line) })
  if (config === undefined) throw new Error('the configuration has problems')
  const [clock, log, ownMetrics] = [new TestClock(), openLog('silent'), createMetricsRegistry()]
  const openStore = () => Promise.reject(new Error('nothing needs the store yet'))
  const accessLog = openAccessLog(config.gateway.accessLog, clock, log)
  const source: DashboardSource = {
    ...{ store: lazyStore(openStore), openStore, accessLog, clock, log, logLevel: log, ownMetrics, metrics: ownMetrics.families },
    ...{ isReady: () => true, reloader: undefined, traffic: async () => [], describeMethods: async () => new Map() },
    ...{ networks: [], networkStatuses: () => [], readNetworks: () => [], refreshHeads: async () => undefined, rpcUrl: '', tls: undefined },
  }
  const closers: Closers = []
  await t.rejects(openDashboards(config.gateway, source, closers), { message: /the port is in use/ })
  t.ok(clock.timerCount > 0, 'what operators see was about to be recorded')
  await closeAll(closers, log)
  t.equal(clock.timerCount, 0)
})
