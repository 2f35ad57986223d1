import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { systemClock } from '../../src/services/clock.ts'
import type { Store } from '../../src/store/store.ts'
import { tempStore } from '../store/temp-store.ts'
import t from '../support/tap.ts'
import { waitUntil } from '../support/wait-until.ts'
import { SeededRandom } from '../simulation/seeded-random.ts'
import { isFailed, mustBeZero } from './attack.ts'
import { runFuzzBytes } from './fuzz-bytes.ts'
import { KeyWriter } from './key-writer.ts'
import { mutate } from './mutate.ts'
import { findFault } from './rpc-invariants.ts'

const sent = '{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}'

t.test('a response that keeps the rules of JSON-RPC has no fault', async t => {
  t.equal(findFault(sent, '{"jsonrpc":"2.0","id":1,"result":null}'), undefined)
  t.equal(findFault(sent, '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}'), undefined)
  t.equal(findFault('[{"id":1},{"id":"a"}]', '[{"jsonrpc":"2.0","id":"a","result":0}]'), undefined)
  t.equal(findFault('{"method":"eth_chainId"}', '', 204), undefined)
  t.equal(findFault('{"id":"\ud83d"}', '{"jsonrpc":"2.0","id":"\ufffd","result":0}'), undefined, 'as it is sent in UTF-8')
})

t.test('each rule of JSON-RPC that a response breaks is named', async t => {
  const faults: Readonly<Record<string, readonly [response: string, status?: number]>> = {
    'HTTP status 502': ['', 502],
    'an empty body with HTTP status 200': [''],
    'the response is not JSON': ['{"jsonrpc":"2.0","id":1,"result":1'],
    'jsonrpc is not 2.0': ['{"id":1,"result":1}'],
    'the id is missing': ['{"jsonrpc":"2.0","result":1}'],
    'not exactly one of result and error': ['{"jsonrpc":"2.0","id":1}'],
    'the error has no integer code or no message': ['{"jsonrpc":"2.0","id":1,"error":{"code":"x"}}'],
    'an internal error': ['{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error"}}'],
    'the id 2 was not sent': ['{"jsonrpc":"2.0","id":2,"result":1}'],
  }
  for (const [fault, [response, status]] of Object.entries(faults)) t.equal(findFault(sent, response, status), fault)
})

t.test('a figure fails above its limit, and when it was not measured', async t => {
  t.notOk(isFailed(mustBeZero('x', 0)))
  t.ok(isFailed(mustBeZero('x', 1)))
  t.ok(isFailed({ name: 'x', value: NaN, limit: 5 }))
  t.notOk(isFailed({ name: 'x', value: 5 }))
})

t.test('keys and revocations that a store has acknowledged and lost are counted', async t => {
  const store = await tempStore(t, systemClock)
  const audit = async (of: Partial<Store>) => {
    const writer = new KeyWriter({ ...store, addAccount: async () => true, ...of })
    await writer.start()
    await writer.untilWritable()
    await waitUntil(async () => (await writer.audit()).acknowledged > 15)
    await writer.stop()
    return (await writer.audit()).lost
  }
  t.equal(await audit({}), 0)
  t.ok((await audit({ addKey: async () => undefined })) > 5, 'keys')
  const revokeKey = async (id: string) => (await store.findKeyById(id))?.key
  await store.addAccount({ id: 'acc_1', name: 'alice', plan: 'core', created: 1 })
  t.ok(
    (await audit({ addKey: (hash, row) => store.addKey(hash, { ...row, account: 'acc_1' }), keys: () => store.keys('acc_1'), revokeKey })) >
      2,
  )
})

t.test('the same seed gives the same changes', async t => {
  const changes = (seed: number) => Array.from({ length: 50 }, (_, i) => mutate(sent, new SeededRandom(seed + i)))
  t.strictSame(changes(1), changes(1))
  t.ok(new Set(changes(1)).size > 25, 'different seeds give different changes')
})

t.test('the fuzz of bytes notices connections that stay open, and responses of another caller', async t => {
  const ids: string[] = []
  const respond = (id: string) => {
    const body = `{"jsonrpc":"2.0","id":"${id}","result":"0x1"}`
    return `HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  }
  const server = createServer({ allowHalfOpen: true }, socket => {
    socket
      .on('error', () => undefined)
      .on('data', bytes => {
        const id = /"id":"([\w-]+)"/.exec(String(bytes))?.[1] ?? ''
        if (id.startsWith('bystander')) socket.end(respond(id))
        else if (id !== '') socket.write(respond(ids[ids.push(id) - 2] ?? id))
      })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const run = (address: string) =>
    runFuzzBytes({ url: address, wsUrl: address, apiKey: 'k', seed: 1, count: 40, hungAfterMs: 1_000, log: () => undefined })
  const result = await run(url)
  t.equal(result.sent, 40)
  t.ok(result.hung > 10 && result.crossed > 5 && result.refused === 0, JSON.stringify(result))
  await t.rejects(run('http://127.0.0.1:1'), { code: 'ECONNREFUSED' }, 'a gateway that is not there before the run is no result')
})
