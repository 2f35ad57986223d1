import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import { deployEmitter, emittedTopic, startAnvilChain } from '../support/anvil-chain.ts'
import { childrenOf, networkFile } from '../support/deployment.ts'
import { call } from '../support/rpc-client.ts'
import type { WsClient } from '../support/rpc-client.ts'
import { untilDayLasts, waitUntil } from '../support/wait-until.ts'
import { hashesOf, replay, startSubscriptionGateway, subscribe } from './subscription-fixture.ts'
import type { Header, Log } from './subscription-fixture.ts'

const chain = await startAnvilChain()
t.teardown(() => chain.stop())

const devnet = networkFile('devnet', [chain.url], { subscriptions: { offer: ['transactionReceipts'] } })
const startGateway = (t: Test, gateway: object) => startSubscriptionGateway(t, chain, gateway, devnet)

const nextHeader = async (client: WsClient): Promise<Header> => {
  const { params } = await client.nextMessage()
  return (params as { result: Header }).result
}

const nextHeaders = async (client: WsClient, count: number): Promise<readonly Header[]> => {
  const headers: Header[] = []
  while (headers.length < count) headers.push(await nextHeader(client))
  return headers
}

const nextLogs = async (client: WsClient, count: number): Promise<readonly Log[]> => {
  const logs: Log[] = []
  while (logs.length < count) logs.push(((await client.nextMessage())['params'] as { result: Log }).result)
  return logs
}

const canonicalHashes = (from: string, count: number) => hashesOf(chain, from, count)

t.test('with 2 workers', async t => {
  const { connect, running, alice, bob } = await startGateway(t, { workers: 2 })

  t.test('newHeads brings each header once, in order, as the node has it', async t => {
    const clients = await Promise.all([connect(), connect(), connect()])
    const ids = await Promise.all(clients.map(client => subscribe(client, 'newHeads')))
    t.equal(new Set(ids).size, 3)
    await chain.request('anvil_mine', '0x3')
    for (const [i, client] of clients.entries()) {
      const first = await client.nextMessage()
      t.match(first, { jsonrpc: '2.0', method: 'eth_subscription', params: { subscription: ids[i] } })
      const header = (first['params'] as { result: Header }).result
      const headers = [header, ...(await nextHeaders(client, 2))]
      t.same(
        headers.map(({ hash }) => hash),
        await canonicalHashes(header.number, 3),
      )
      t.notOk('transactions' in header)
      t.equal(Number((await client.call('eth_blockNumber')).result) >= Number(headers[2]?.number), true, 'no answer is from before it')
    }
  })

  t.test('a reorg brings the headers of the new branch', async t => {
    const client = await connect()
    await subscribe(client, 'newHeads')
    await chain.request('anvil_mine', '0x4')
    const before = await nextHeaders(client, 4)
    await chain.request('anvil_reorg', 2, [])
    await chain.request('anvil_mine', '0x1')
    const after = await nextHeaders(client, 3)
    t.equal(after[0]?.parentHash, before[1]?.hash)
    t.same(
      after.map(({ hash }) => hash),
      await canonicalHashes(after[0]?.number ?? '', 3),
    )
  })

  t.test('logs brings the logs that eth_getLogs has, to those whose filter they match', async t => {
    const emitter = await deployEmitter(chain)
    const topicOf = (i: number) => `0x${i.toString(16).padStart(64, '0')}`
    const filters = [
      { address: emitter.address },
      { address: [emitter.address.toUpperCase().replace('X', 'x'), topicOf(0).slice(0, 42)], topics: [[emittedTopic, null]] },
      { topics: [null, [topicOf(1), topicOf(2)]] },
      { topics: [emittedTopic, topicOf(2)], fromBlock: '0x0', toBlock: 'latest' },
      { address: topicOf(7).slice(0, 42) },
    ]
    const clients = await Promise.all(filters.map(() => connect()))
    for (const [i, client] of clients.entries()) t.match(await subscribe(client, 'logs', filters[i]), /^0x[0-9a-f]{32}$/)
    const all = await connect()
    await subscribe(all, 'logs')
    const tooManyTopics = await connect()
    await subscribe(tooManyTopics, 'logs', { topics: [emittedTopic, null, null] })
    const { blockHash } = await emitter.emitLogs(4)
    const wanted = (filter: object) =>
      chain.request<Log[]>('eth_getLogs', { ...filter, fromBlock: undefined, toBlock: undefined, blockHash })
    t.same(await nextLogs(all, 4), await wanted({}))
    t.ok((await tooManyTopics.call('eth_chainId')).result, 'as geth: a log has at least as many topics as the filter')
    for (const [i, client] of clients.entries()) {
      const logs = await wanted(filters[i] ?? {})
      t.same(await nextLogs(client, logs.length), logs, JSON.stringify(filters[i]))
      t.ok((await client.call('eth_chainId')).result, 'and nothing else')
    }
  })

  t.test('transactionReceipts brings the receipts of each block, to those who want them', async t => {
    const [all, one, none] = await Promise.all([connect(), connect(), connect()])
    const clients = [all, one, none]
    const nextReceipts = async (client: WsClient) => ((await client.nextMessage())['params'] as { result: unknown }).result
    const [from] = await chain.request<string[]>('eth_accounts')
    await chain.request('evm_setAutomine', false)
    t.teardown(() => chain.request('evm_setAutomine', true))
    const send = () => chain.request<string>('eth_sendTransaction', { from, to: from, gas: '0x5208' })
    const hashes = [await send(), await send()] as const
    t.match(await subscribe(all, 'transactionReceipts'), /^0x[0-9a-f]{32}$/)
    await subscribe(one, 'transactionReceipts', { transactionHashes: [hashes[1].toUpperCase().replace('X', 'x')] })
    await subscribe(none, 'transactionReceipts', { transactionHashes: [`0x${'f'.repeat(64)}`] })
    await chain.request('anvil_mine', '0x2')
    const receipts = await Promise.all(hashes.map(hash => chain.request('eth_getTransactionReceipt', hash)))
    t.same(await nextReceipts(all), receipts, 'as eth_getTransactionReceipt has them')
    t.same(await nextReceipts(one), [receipts[1]])
    await chain.request('anvil_reorg', 2, [])
    const later = await send()
    await chain.request('anvil_mine', '0x1')
    const sent = (await nextReceipts(all)) as { readonly transactionHash: string }[]
    t.ok(sent.some(({ transactionHash }) => transactionHash === later))
    for (const client of clients)
      t.ok((await client.call('eth_chainId')).result, 'nothing else, of an empty block or of one that was removed')
    const refused = await all.call('eth_subscribe', ['transactionReceipts', { address: from }])
    t.match(refused.error, { code: -32602, message: /"transactionHashes" alone/ })
  })

  t.test('a reorg takes logs back, and brings those of the new branch', async t => {
    const emitter = await deployEmitter(chain)
    const client = await connect()
    await subscribe(client, 'logs', { address: emitter.address })
    for (const count of [2, 1, 3]) await emitter.emitLogs(count)
    const before = await nextLogs(client, 6)
    await chain.request('anvil_reorg', 2, [])
    await chain.request('anvil_mine', '0x1')
    const removed = await nextLogs(client, 4)
    t.same(
      removed,
      before
        .slice(2)
        .reverse()
        .map(log => ({ ...log, removed: true })),
      'the last first',
    )
    await emitter.emitLogs(1)
    const after = await nextLogs(client, 1)
    const wanted = await chain.request<Log[]>('eth_getLogs', { address: emitter.address, fromBlock: 'earliest' })
    t.same(replay([...before, ...removed, ...after]), wanted)
  })

  t.test('filters bring over HTTP what has changed since they were polled, whichever worker is asked', async t => {
    const url = running.http(alice.key)
    const emitter = await deployEmitter(chain)
    const create = async (method: string, ...params: readonly unknown[]) => (await call(url, method, params)).result as string
    const changesOf = async <T>(id: string): Promise<readonly T[]> => (await call(url, 'eth_getFilterChanges', [id])).result as T[]
    const collect = async <T>(id: string, count: number): Promise<readonly T[]> => {
      const changes: T[] = []
      while (changes.length < count) changes.push(...(await changesOf<T>(id)))
      return changes
    }
    const filters = await Promise.all(Array.from({ length: 4 }, () => create('eth_newFilter', { address: emitter.address })))
    const blocks = await create('eth_newBlockFilter')
    for (const id of [...filters, blocks]) t.match(id, /^0x[0-9a-f]{32}$/)
    t.same(await changesOf(blocks), [])
    for (const count of [2, 1]) await emitter.emitLogs(count)
    const wanted = await chain.request<Log[]>('eth_getLogs', { address: emitter.address, fromBlock: 'earliest' })
    for (const id of filters) t.same(await collect<Log>(id, 3), wanted)
    t.same(await collect<string>(blocks, 2), [wanted[0]?.blockHash, wanted[2]?.blockHash])
    for (const id of [...filters, blocks]) t.same(await changesOf(id), [])
    for (const id of filters) t.same((await call(url, 'eth_getFilterLogs', [id])).result, wanted.slice(2), 'those of the newest block')
    await chain.request('anvil_reorg', 2, [])
    await chain.request('anvil_mine', '0x1')
    const removed = wanted.toReversed().map(log => ({ ...log, removed: true }))
    for (const id of filters) t.same(await collect<Log>(id, 3), removed)
    t.equal((await collect<string>(blocks, 3)).length, 3)
    for (const id of [...filters, blocks]) t.equal((await call(url, 'eth_uninstallFilter', [id])).result, true)
    for (const id of [...filters, blocks]) t.equal((await call(url, 'eth_uninstallFilter', [id])).result, false)
    t.match((await call(url, 'eth_getFilterChanges', [blocks])).error, { code: -32000, message: 'filter not found' })
  })

  t.test('a filter is found by its account alone', async t => {
    const id = (await call(running.http(alice.key), 'eth_newBlockFilter')).result as string
    const errorOf = async (key: string, method: string, filter: unknown) => (await call(running.http(key), method, [filter])).error
    for (const method of ['eth_getFilterChanges', 'eth_getFilterLogs'])
      for (const unknown of [`0x${'0'.repeat(32)}`, '0x1', 'x', `${id.slice(0, 18)}${'0'.repeat(16)}`])
        t.match(await errorOf(alice.key, method, unknown), { code: -32000, message: 'filter not found' })
    t.match(await errorOf(alice.key, 'eth_getFilterLogs', id), { code: -32000 }, 'a block filter has no logs')
    t.match(await errorOf(alice.key, 'eth_getFilterChanges', 7), { code: -32602 })
    t.match(await errorOf(alice.key, 'eth_newFilter', { blockHash: `0x${'1'.repeat(64)}` }), { code: -32602 })
    t.match(await errorOf(bob.key, 'eth_getFilterChanges', id), { code: -32000 })
    t.match((await call(running.http(alice.key), 'eth_getFilterChanges', [id])).error, undefined)
  })

  t.test('eth_unsubscribe ends it, once', async t => {
    const client = await connect()
    const id = await subscribe(client, 'newHeads')
    t.equal((await client.call('eth_unsubscribe', [id])).result, true)
    await chain.request('anvil_mine', '0x1')
    t.match(await client.call('eth_unsubscribe', [id]), { error: { code: -32000, message: 'subscription not found' } })
    t.ok((await client.call('eth_blockNumber')).result, 'no event came between')
  })

  t.test('what cannot be subscribed to has an error, and the socket lives', async t => {
    const client = await connect()
    const stranger = await subscribe(await connect(), 'newHeads')
    const errorOf = async (method: string, params: readonly unknown[]) => (await client.call(method, params)).error
    t.match(await errorOf('eth_subscribe', ['news']), { code: -32601, message: 'no "news" subscription in eth namespace' })
    t.match(await errorOf('eth_subscribe', []), { code: -32602 })
    t.match(await errorOf('eth_subscribe', ['newHeads', {}]), { code: -32602 })
    t.match(await errorOf('eth_subscribe', ['logs', 'x']), {
      code: -32602,
      message: 'params[1] must be a filter object or true or false, not "x"',
    })
    t.match(await errorOf('eth_subscribe', ['logs', { address: 'x' }]), { code: -32602, message: /address/ })
    t.match(await errorOf('eth_subscribe', ['logs', { topics: [[], [], [], [], []] }]), { code: -32602 })
    t.match(await errorOf('eth_subscribe', ['logs', { fromBlock: 'pending' }]), { code: -32602, message: /"fromBlock"/ })
    t.match(await errorOf('eth_subscribe', ['logs', { blockHash: `0x${'1'.repeat(64)}` }]), { code: -32602, message: /"blockHash"/ })
    t.match(await errorOf('eth_unsubscribe', [stranger]), { code: -32000 })
    t.match(await errorOf('eth_unsubscribe', [7]), { code: -32602 })
    client.send(JSON.stringify([{ jsonrpc: '2.0', id: 1, method: 'eth_subscribe', params: ['newHeads'] }]))
    t.match(await client.nextMessage(), { 0: { id: 1, error: { code: -32601, message: /in a batch/ } } })
    t.match((await call(running.http(alice.key), 'eth_subscribe', ['newHeads'])).error, {
      code: -32601,
      message: 'notifications not supported',
    })
    for (const criteria of [{ topics: ['0x1'] }, { fromBlock: 'safe' }, { fromBlock: '0x2', toBlock: '0x1' }, 7])
      t.match(await errorOf('eth_newFilter', [criteria]), { code: -32602 }, JSON.stringify(criteria))
    t.ok((await client.call('eth_chainId')).result)
  })

  t.test('a closed socket leaves nothing behind', async t => {
    const gauge = () => running.metric('tollgate_subscriptions', { kind: 'newHeads' })
    const client = await connect()
    const before = await gauge()
    await subscribe(client, 'newHeads')
    t.equal(await gauge(), before + 1)
    await client.close()
    await waitUntil(async () => (await gauge()) === before)
  })
})

t.test('when a worker dies, its sockets close, and the others see no gap', async t => {
  const { connect, running } = await startGateway(t, { workers: 2 })
  const clients = await Promise.all(Array.from({ length: 12 }, () => connect()))
  for (const client of clients) await subscribe(client, 'newHeads')
  const [dying, survivor] = childrenOf(running.pid)
  const closed = new Set<WsClient>()
  for (const client of clients) void client.closed.then(() => closed.add(client))
  const heads = Promise.allSettled(clients.map(client => nextHeaders(client, 6)))
  await chain.request('anvil_mine', '0x3')
  process.kill(dying ?? 0, 'SIGKILL')
  await waitUntil(() => closed.size > 0)
  await chain.request('anvil_mine', '0x3')
  const results = await heads
  t.ok(survivor !== undefined && closed.size < clients.length)
  for (const [i, result] of results.entries()) {
    if (closed.has(clients[i] as WsClient)) continue
    if (result.status === 'rejected') throw result.reason
    t.same(
      result.value.map(({ hash }) => hash),
      await canonicalHashes(result.value[0]?.number ?? '', 6),
    )
  }
})

t.test('a reload of the configuration loses no event', async t => {
  const { deployment, connect, running, alice } = await startGateway(t, {})
  const client = await connect()
  await subscribe(client, 'newHeads')
  const filter = (await call(running.http(alice.key), 'eth_newBlockFilter')).result
  deployment.writeNetwork(
    'devnet',
    networkFile('devnet', [chain.url], { subscriptions: { maxPerAccount: 1 }, cache: { maxBytes: '8MiB' } }),
  )
  process.kill(running.pid, 'SIGHUP')
  await chain.request('anvil_mine', '0x1')
  await running.waitForEvent('reloaded')
  await chain.request('anvil_mine', '0x1')
  const hashes = (await nextHeaders(client, 2)).map(({ hash }) => hash)
  t.same((await call(running.http(alice.key), 'eth_getFilterChanges', [filter])).result, hashes)
  const { error } = await client.call('eth_subscribe', ['newHeads'])
  t.match(error, { code: -32005, message: 'too many subscriptions: at most 1 of one account' }, 'the new limit holds')
  t.ok((await client.call('eth_chainId')).result, 'and the socket lives')
})

t.test('a reload with another blockTime or devNode closes sockets with subscriptions and says why; metrics of upstreams stay', async t => {
  const { deployment, connect, running } = await startGateway(t, {})
  const [client, other, last] = [await connect(), await connect(), await connect()]
  await subscribe(client, 'newHeads')
  const seriesOfUpstreams = async () => {
    const { text } = await running.get('/metrics')
    const names = text.split('\n').flatMap(line => /^(tollgate_upstream_\w+)\{.*\bupstream="/.exec(line)?.[1] ?? [])
    return [...new Set(names)].sort()
  }
  const before = await seriesOfUpstreams()
  t.ok(before.includes('tollgate_upstream_up') && before.includes('tollgate_upstream_requests_in_flight'))
  const network = { ...networkFile('devnet', [chain.url], { subscriptions: {} }), blockTime: '3s' }
  const closed = { code: 1013, reason: 'the configuration of the network has changed; subscribe again' }
  deployment.writeNetwork('devnet', network)
  process.kill(running.pid, 'SIGHUP')
  await running.waitForEvent('reloaded')
  t.same(await client.closed, closed)
  await subscribe(other, 'newHeads')
  await chain.request('anvil_mine', '0x1')
  t.equal((await nextHeaders(other, 1)).length, 1, 'another socket stays open, and can subscribe')
  t.same(await seriesOfUpstreams(), before)
  deployment.writeNetwork('devnet', { ...network, devNode: true })
  process.kill(running.pid, 'SIGHUP')
  t.same(await other.closed, closed)
  await subscribe(last, 'newHeads')
  await chain.request('anvil_mine', '0x1')
  t.equal((await nextHeaders(last, 1)).length, 1)
})

t.test('a reload that removes credits and network-access, or adds them, holds for events of open sockets', async t => {
  const { deployment, connect, running, bob } = await startGateway(t, {})
  const client = await connect(bob.key)
  await subscribe(client, 'newHeads')
  await deployment.run('keys', 'set', bob.id, '--methods', 'eth_chainId')
  await waitUntil(async () => (await client.call('eth_blockNumber')).error !== undefined)
  deployment.writeNetwork('devnet', networkFile('devnet', [chain.url], { credits: false, 'network-access': false }))
  process.kill(running.pid, 'SIGHUP')
  await running.waitForEvent('reloaded')
  await chain.request('anvil_mine', '0x14')
  t.equal((await nextHeaders(client, 20)).length, 20, 'the account has credits for few of them')
  // The key is allowed the method again: only its credits end the WebSocket.
  await deployment.run('keys', 'set', bob.id, '--methods', 'eth_chainId,eth_subscribe')
  deployment.writeNetwork('devnet', networkFile('devnet', [chain.url]))
  process.kill(running.pid, 'SIGHUP')
  await waitUntil(() => running.log.filter(({ event }) => event === 'reloaded').length === 2)
  await chain.request('anvil_mine', '0x14')
  t.match(await client.closed, { code: 1008, reason: /^the daily credits are used up until / })
})

t.test('a reload that changes what events cost holds for open subscriptions', async t => {
  await untilDayLasts()
  const { deployment, connect, running } = await startGateway(t, {})
  const client = await connect()
  await subscribe(client, 'newHeads')
  const used = async () => (JSON.parse((await deployment.run('usage', 'alice', '--json')).stdout) as { used: number }).used
  const table = join(deployment.dir, 'methods/ethereum.yaml')
  writeFileSync(table, readFileSync(table, 'utf8').replace('eventCosts: { newHeads: 10,', 'eventCosts: { newHeads: 100000,'))
  process.kill(running.pid, 'SIGHUP')
  await running.waitForEvent('reloaded')
  await chain.request('anvil_mine', '0x2')
  await nextHeaders(client, 2)
  await waitUntil(async () => (await used()) >= 100_000)
})

t.test('events of a key', async t => {
  const { deployment, connect } = await startGateway(t, {})
  const usage = async (account: string) => JSON.parse((await deployment.run('usage', account, '--json')).stdout) as { used: number }

  /** Credits for messages with these events, of one subscription. */
  const costOf = (events: readonly unknown[]) => {
    const message = (result: unknown) =>
      JSON.stringify({ jsonrpc: '2.0', method: 'eth_subscription', params: { subscription: `0x${'0'.repeat(32)}`, result } })
    return 10 * Math.ceil(events.reduce<number>((sum, event) => sum + message(event).length, 0) / 1_024)
  }

  t.test('cost credits for each KiB, but not those of logs that are taken back', async t => {
    await untilDayLasts()
    const emitter = await deployEmitter(chain)
    const { key } = await deployment.addKey('alice')
    const client = await connect(key)
    const before = (await usage('alice')).used
    await subscribe(client, 'logs', { address: emitter.address })
    await emitter.emitLogs(3)
    const expected = before + 5 + costOf(await nextLogs(client, 3))
    await chain.request('anvil_reorg', 1, [])
    await chain.request('anvil_mine', '0x1')
    await nextLogs(client, 3)
    await client.close()
    await waitUntil(async () => (await usage('alice')).used >= expected)
    t.equal((await usage('alice')).used, expected)
  })

  t.test('end with its socket when it may not subscribe any more', async t => {
    const { id, key } = await deployment.addKey('alice')
    const client = await connect(key)
    await subscribe(client, 'newHeads')
    await deployment.run('keys', 'set', id, '--methods', 'eth_chainId')
    await waitUntil(async () => (await client.call('eth_blockNumber')).error !== undefined)
    await chain.request('anvil_mine', '0x1')
    t.match(await client.closed, { code: 1008, reason: 'this API key is no longer allowed to subscribe' })
    await t.rejects(client.nextMessage(), 'no event came before')
  })
})
