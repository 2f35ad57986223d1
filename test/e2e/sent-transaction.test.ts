import t from '../support/tap.ts'
import { deferred } from '../support/deferred.ts'
import { networkFile, startGateway } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { callResult, connectWs, post } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'

const hash = `0x${'1'.repeat(64)}`
const workers = 2
const lookUp = { jsonrpc: '2.0', id: 1, method: 'eth_getTransactionByHash', params: [hash] }
const send = { ...lookUp, method: 'eth_sendRawTransaction', params: ['0x02f8'] }

/** Of the node: the first look-up of each worker is answered when it is released, as if it had been asked too early. */
const { promise: released, resolve: release } = deferred()
let lookUps = 0
const node = await startFakeNode({
  eth_chainId: { result: '0x7a69' },
  eth_blockNumber: { result: '0x10' },
  eth_sendRawTransaction: { result: hash },
  async eth_getTransactionByHash() {
    lookUps += 1
    if (lookUps > workers) return { result: { hash, blockHash: null, blockNumber: null } }
    await released
    return { result: null }
  },
})
t.teardown(() => node.stop())
const { gateway, key, url } = await startGateway(t, { gateway: { workers }, networks: { devnet: networkFile('devnet', [node.url]) } })

t.test('a caller who has sent a transaction joins no call of before, whichever worker and way its next call takes', async t => {
  // Each is a new connection: every worker gets some, and shares one call between them.
  const early = Promise.all(Array.from({ length: 8 }, () => callResult<unknown>(url, lookUp.method, lookUp.params)))
  await waitUntil(() => lookUps === workers)
  t.equal(await callResult(url, send.method, send.params), hash)
  const found = { hash, blockHash: null, blockNumber: null }
  const overHttp = Array.from({ length: 8 }, () => callResult<unknown>(url, lookUp.method, lookUp.params))
  const inBatches = Array.from({ length: 8 }, async () => (await post(url, JSON.stringify([lookUp, { ...lookUp, id: 2 }]))).json())
  const overWebSockets = Array.from({ length: 8 }, async () => {
    const client = await connectWs(gateway.ws(key))
    const { result } = await client.call(lookUp.method, lookUp.params)
    await client.close()
    return result
  })
  t.same(
    new Set((await Promise.all([...overHttp, ...overWebSockets])).map(result => JSON.stringify(result))),
    new Set([JSON.stringify(found)]),
  )
  for (const replies of await Promise.all(inBatches)) t.match(replies, [{ result: found }, { result: found }])
  release()
  t.same((await early)[0], null, 'an early one got the early answer')
})
