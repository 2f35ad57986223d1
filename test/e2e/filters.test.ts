import t from '../support/tap.ts'
import { deployEmitter, startAnvilChain } from '../support/anvil-chain.ts'
import { openEthers, openViem, openWeb3 } from '../support/dapp-clients.ts'
import { networkFile } from '../support/deployment.ts'
import type { GatewayProcess } from '../support/deployment.ts'
import { skipWithoutRedis, startRedisServer } from '../support/redis-server.ts'
import { call } from '../support/rpc-client.ts'
import type { WsClient } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'
import { hashesOf, replay, startSubscriptionGateway, subscribe } from './subscription-fixture.ts'
import type { Log } from './subscription-fixture.ts'

const chain = await startAnvilChain()
t.teardown(() => chain.stop())

const offer = ['newPendingTransactions', 'syncing']

t.test('a filter outlives its process, whether that ends in order or is killed', async t => {
  const { deployment, running, alice } = await startSubscriptionGateway(t, chain, {})
  const emitter = await deployEmitter(chain)
  const create = async (method: string, ...params: readonly unknown[]) => (await call(running.http(alice.key), method, params)).result
  const [logs, blocks] = [await create('eth_newFilter', { address: emitter.address }), await create('eth_newBlockFilter')]
  const changesOf = async <T>({ http }: typeof running, filter: unknown): Promise<readonly T[]> => {
    const { result, error } = await call(http(alice.key), 'eth_getFilterChanges', [filter])
    if (error !== undefined) throw new Error(error.message)
    return result as T[]
  }
  await emitter.emitLogs(2)
  const before: Log[] = []
  await waitUntil(async () => before.push(...(await changesOf<Log>(running, logs))) === 2)
  const hashes: string[] = []
  await waitUntil(async () => hashes.push(...(await changesOf<string>(running, blocks))) === 1)
  await running.stop()
  await chain.request('anvil_mine', '0x1')
  await emitter.emitLogs(3)
  const second = await deployment.start()
  const wanted = await chain.request<Log[]>('eth_getLogs', { address: emitter.address, fromBlock: 'earliest' })
  t.same(replay([...before, ...(await changesOf<Log>(second, logs))]), wanted)
  t.same([...hashes, ...(await changesOf<string>(second, blocks))], await hashesOf(chain, wanted[0]?.blockNumber ?? '', 3))
  const third = await deployment.start()
  await second.kill()
  await emitter.emitLogs(1)
  const last = await chain.request<Log[]>('eth_getLogs', { address: emitter.address, fromBlock: 'latest' })
  t.same((await changesOf<Log>(third, logs)).slice(-1), last, 'what was delivered when the process was killed may come again')
})

/** The number of the last block that was delivered, as it is stored. */
const positionOf = (record: unknown): number =>
  (JSON.parse(String(record)) as { value: { position: { number: number } } }).value.position.number

t.test('filters are polled through any gateway of one Redis', { skip: skipWithoutRedis }, async t => {
  const redis = await startRedisServer()
  t.teardown(() => redis.remove())
  const network = networkFile('devnet', [chain.url], { subscriptions: { offer } })
  const { deployment, running, alice } = await startSubscriptionGateway(t, chain, { store: redis.url }, network)
  const gateways = [running, await deployment.start()] as const
  const request = async <T>(gateway: GatewayProcess, method: string, ...params: readonly unknown[]): Promise<T> => {
    const { result, error } = await call(gateway.http(alice.key), method, params)
    if (error !== undefined) throw new Error(error.message)
    return result as T
  }
  const emitter = await deployEmitter(chain)
  const filters = await Promise.all(
    gateways.map(async gateway => ({
      logs: await request<string>(gateway, 'eth_newFilter', { address: emitter.address, fromBlock: 'earliest' }),
      seen: [] as Log[],
    })),
  )
  const emitted = () => chain.request<Log[]>('eth_getLogs', { address: emitter.address, fromBlock: 'earliest' })
  let polls = 0
  const pollAll = async () => {
    for (const { logs, seen } of filters) {
      const gateway = gateways[polls % 2] ?? running
      seen.push(...(await request<Log[]>(gateway, 'eth_getFilterChanges', logs)))
      polls += 1
    }
    polls += 1
  }
  const followsChain = async (): Promise<boolean> => {
    await pollAll()
    const wanted = JSON.stringify(await emitted())
    return filters.every(({ seen }) => JSON.stringify(replay(seen)) === wanted)
  }
  for (const count of [1, 2, 3]) {
    await emitter.emitLogs(count)
    await waitUntil(followsChain)
  }
  await chain.request('anvil_reorg', 2, [])
  await waitUntil(followsChain)
  await emitter.emitLogs(2)
  await waitUntil(followsChain)
  for (const { seen } of filters) {
    t.ok(
      seen.some(({ removed }) => removed),
      'logs were taken back',
    )
    t.equal(new Set(seen.map(log => JSON.stringify(log))).size, seen.length, 'none is repeated')
  }

  const pending = await request(gateways[0], 'eth_newPendingTransactionFilter')
  t.same(await request(gateways[0], 'eth_getFilterChanges', pending), [])
  await t.rejects(request(gateways[1], 'eth_getFilterChanges', pending), { message: 'filter not found' }, 'it ends with its process')
  const [first, second] = filters
  if (first === undefined || second === undefined) throw new Error('two gateways, two filters')
  t.same(await request(gateways[1], 'eth_getFilterLogs', first.logs), await emitted())
  t.equal(await request(gateways[0], 'eth_uninstallFilter', second.logs), true)
  t.equal(await request(gateways[1], 'eth_uninstallFilter', second.logs), false)
  const head = await chain.request('eth_blockNumber')
  await waitUntil(async () => positionOf(await redis.send('HGET', 'tollgate:{portal}:filter', first.logs)) === Number(head))
  await emitter.emitLogs(1)
  await gateways[0].kill()
  const wanted = await emitted()
  await waitUntil(async () => {
    first.seen.push(...(await request<Log[]>(gateways[1], 'eth_getFilterChanges', first.logs)))
    return replay(first.seen).length >= wanted.length
  })
  t.same(replay(first.seen), wanted, 'the other gateway goes on with the filters of one that was killed')
})

const upstreamWith = (options: object) => ({ failover: { upstreams: [{ name: 'node', url: chain.url, ...options }] } })
const pendingNetworks = {
  'polled from the node': networkFile('devnet', [chain.url], { subscriptions: { offer } }),
  'over the WebSocket of the node': networkFile('devnet', [], {
    subscriptions: { offer },
    ...upstreamWith({ ws: chain.url.replace('http', 'ws') }),
  }),
}

for (const [name, network] of Object.entries(pendingNetworks)) {
  t.test(`pending transactions ${name}`, async t => {
    const { connect, running, alice } = await startSubscriptionGateway(
      t,
      chain,
      { workers: name === 'polled from the node' ? 1 : 2 },
      network,
    )
    const url = running.http(alice.key)
    const [hashes, transactions] = [await connect(), await connect()]
    const clients = {
      viem: openViem(running.ws(alice.key)),
      ethers: openEthers(running.ws(alice.key)),
      web3: openWeb3(running.ws(alice.key)),
    }
    const seen: Record<string, string[]> = { viem: [], ethers: [], web3: [] }
    for (const [client, { watchPending, close }] of Object.entries(clients)) {
      t.teardown(close)
      await watchPending(hash => seen[client]?.push(hash))
    }
    t.match(await subscribe(hashes, 'newPendingTransactions'), /^0x[0-9a-f]{32}$/)
    await subscribe(transactions, 'newPendingTransactions', true)
    const filter = (await call(url, 'eth_newPendingTransactionFilter')).result
    const fullFilter = (await call(url, 'eth_newPendingTransactionFilter', [true])).result
    await waitUntil(async () => (await running.metric('tollgate_subscriptions', { kind: 'newPendingTransactions' })) === 4)
    const [from, to] = await chain.request<string[]>('eth_accounts')
    const sent: string[] = []
    for (const value of ['0x1', '0x2', '0x3']) sent.push(await chain.request('eth_sendTransaction', { from, to, value }))
    const received = async <T>(client: WsClient, read: (result: unknown) => T): Promise<readonly T[]> => {
      const results: T[] = []
      while (results.length < sent.length) results.push(read(((await client.nextMessage())['params'] as { result: unknown }).result))
      return results
    }
    t.same(await received(hashes, String), sent)
    t.same((await received(transactions, result => (result as { hash: string }).hash)).toSorted(), sent.toSorted())
    const changes: unknown[] = []
    await waitUntil(async () => {
      changes.push(...((await call(url, 'eth_getFilterChanges', [filter])).result as unknown[]))
      return changes.length >= sent.length
    })
    t.same(changes, sent)
    const full: { hash: string; value: string }[] = []
    await waitUntil(async () => {
      full.push(...((await call(url, 'eth_getFilterChanges', [fullFilter])).result as typeof full))
      return full.length >= sent.length
    })
    t.same(full.map(({ value }) => value).toSorted(), ['0x1', '0x2', '0x3'])
    await waitUntil(() => Object.values(seen).every(({ length }) => length >= sent.length))
    for (const hashesOf of Object.values(seen)) t.same(hashesOf, sent)
  })
}
