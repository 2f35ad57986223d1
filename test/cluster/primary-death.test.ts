import t from '../support/tap.ts'
import { deferred } from '../support/deferred.ts'
import { createDeployment, networkFile, childrenOf, isRunning } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { call } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'

t.test('the workers of a primary that is killed', async t => {
  const node = await startFakeNode({ eth_chainId: { result: '0x7a69' }, eth_getBlockByNumber: { result: null } })
  const deployment = createDeployment({ gateway: { workers: 2 }, networks: { testnet: networkFile('testnet', [node.url]) } })
  t.teardown(async () => {
    await deployment.remove()
    await node.stop()
  })
  const { key } = await deployment.addCaller('alice')

  /** Kills the primary while calls are in flight at a node and others come in. Resolves with the calls in flight, once all processes have ended. */
  const killBusyPrimary = async () => {
    const { promise: released, resolve: release } = deferred()
    node.setResponse('eth_call', async () => {
      await released
      return { result: '0x01' }
    })
    const received = node.received.filter(({ method }) => method === 'eth_call').length
    const gateway = await deployment.start()
    const url = gateway.http(key)
    const pids = childrenOf(gateway.pid)
    const inFlight = Array.from({ length: 4 }, (_, i) => call(url, 'eth_call', [{ to: `0x${String(i).repeat(40)}` }, 'latest']))
    const answers = Promise.allSettled(inFlight)
    const busy = Array.from({ length: 8 }, async () => {
      while ((await call(url, 'eth_chainId').catch(() => undefined)) !== undefined);
    })
    await node.waitForRequests('eth_call', received + inFlight.length)
    process.kill(gateway.pid, 'SIGKILL')
    await Promise.all(busy)
    release()
    await waitUntil(() => !pids.some(isRunning))
    return answers
  }

  t.test('answer the calls in flight, return their leases, close the store and exit', async t => {
    for (let i = 0; i < 2; i++) {
      t.match(await killBusyPrimary(), Array(4).fill({ status: 'fulfilled', value: { result: '0x01' } }))
      const { code, stdout } = await deployment.run('audit', '--json')
      t.equal(code, 0)
      t.match(JSON.parse(stdout), [{ account: 'alice', held: 0, forfeited: 0, faults: [] }])
    }
  })

  t.test('exit too when they were not ready yet', async t => {
    const gateway = await deployment.start()
    const [replaced] = childrenOf(gateway.pid) as [number]
    process.kill(replaced, 'SIGKILL')
    await gateway.waitForEvent('worker-exited')
    await waitUntil(() => childrenOf(gateway.pid).length === 2)
    const pids = childrenOf(gateway.pid)
    process.kill(gateway.pid, 'SIGKILL')
    await waitUntil(() => !pids.some(isRunning))
    t.equal((await deployment.run('accounts', 'list')).code, 0)
  })
})
