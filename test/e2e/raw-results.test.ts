import { deepStrictEqual } from 'node:assert/strict'
import fc from 'fast-check'
import t from '../support/tap.ts'
import { plugins } from '../../plugins/index.ts'
import { loadValidConfig } from '../../src/cli/gateway-process.ts'
import { openGateway } from '../../src/core/gateway.ts'
import { systemClock } from '../../src/services/clock.ts'
import { TestLog } from '../support/fakes.ts'
import { createDeployment, networkFile } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { hasInexactNumber, withNamesAsTexts } from '../support/json-numbers.ts'
import { connectWs, post } from '../support/rpc-client.ts'

// What makes the gateway fast, and what callers may ask of it, observed in its own process.

const marker = 'c0ffee'.repeat(4)
const logs = Array.from({ length: 2000 }, (_, i) => ({ logIndex: `0x${i.toString(16)}`, data: `0x${marker}` }))

const number = fc.oneof(
  fc.constantFrom('12345678901234567890', '12345678901234567891', '1e400', '-1e400', '1e-400', '0', '-0', '-0.0', '1', '1.0', '1.00'),
  fc.constantFrom('1E5', '1e5', '1e+5', '100000', '9007199254740993', '999999999999999', '9999999999999999', '0.1', '5e-324', '1e21'),
  fc.stringMatching(/^-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,4})?([eE][+-]?[0-9]{1,3})?$/),
)
const name = fc.constantFrom('"a"', '"x"', '"\\u0061"', '"\\\\"', '"\\""', '"0"', '"__proto__"', '"-1.0"', '"méthode"')
const { value } = fc.letrec<{ value: string }>(tie => ({
  value: fc.oneof(
    { depthSize: 'small' },
    number,
    fc.constantFrom('true', 'null', '""', '"1.0"', '"[1.0,-0"', '"\\\\"', '"\\",1e5"', '"ü"', '[]', '{ }'),
    fc.array(tie('value'), { maxLength: 3 }).map(all => `[${all.join(' , ')}]`),
    fc
      .uniqueArray(fc.tuple(name, tie('value')), { maxLength: 3, selector: ([key]) => JSON.parse(key) as string })
      .map(members => `{${members.map(([key, member]) => `${key} :${member}`).join()}}`),
  ),
}))

t.test('results', async t => {
  const requestedMethods: string[] = []
  const respond = (method: string, result: unknown) => () => {
    requestedMethods.push(method)
    return { result }
  }
  const node = await startFakeNode({
    eth_getStorageAt: respond('eth_getStorageAt', `0x${marker.padStart(64, '0')}`),
    eth_getLogs: respond('eth_getLogs', logs),
    eth_call: ({ text }) => ({ result: `0x${Buffer.from(text.slice(text.indexOf('['))).toString('hex')}` }),
    eth_getBlockByNumber: { result: null },
    eth_chainId: { result: '0x7a69' },
  })
  // However long a busy machine takes, the node counts as responsive.
  const network = networkFile('testnet', [node.url], { upstream: { timeout: '60s', probeAfter: '30s' } })
  const deployment = createDeployment({ networks: { testnet: { ...network, blockTime: '60s' } } })
  const { key } = await deployment.addCaller('alice', 'growth')
  const config = await loadValidConfig(deployment.dir, plugins, { env: {}, err: line => t.fail(line) })
  if (config === undefined) return
  const gateway = await openGateway(config, systemClock, new TestLog())
  const url = `${gateway.urls.rpc}/v3/${key}`
  const wsUrl = `${gateway.urls.rpc.replace('http', 'ws')}/ws/v3/${key}`
  t.teardown(async () => {
    await gateway.stop()
    await deployment.remove()
    await node.stop()
  })

  t.test('are not parsed on their way from the node, nor from the cache', async t => {
    const [parse, stringify] = [JSON.parse, JSON.stringify]
    const observed: string[] = []
    const responses: string[] = []
    try {
      // This process is the caller too: it reads responses as text.
      JSON.parse = (text: string) => {
        if (text.includes(marker)) observed.push(`parsed ${text.slice(0, 40)}`)
        return parse(text)
      }
      JSON.stringify = (value: unknown, ...more: never[]) => {
        const text = stringify(value, ...more)
        if (text?.includes(marker)) observed.push(`serialized ${text.slice(0, 40)}`)
        return text
      }
      for (const [method, params] of [
        ['eth_getStorageAt', `["0x${'1'.repeat(40)}","0x0","latest"]`],
        ['eth_getLogs', '[{}]'],
      ]) {
        for (let i = 0; i < 2; i++) {
          const body = `{"jsonrpc":"2.0","id":${i},"method":"${method}","params":${params}}`
          const response = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
          responses.push(await response.text())
        }
      }
    } finally {
      JSON.parse = parse
      JSON.stringify = stringify
    }
    t.same(
      observed.filter(line => !line.startsWith('serialized {"jsonrpc":"2.0","id":')),
      [],
      'only the fake node serializes them',
    )
    t.equal(parse(responses[0] ?? '').result, `0x${marker.padStart(64, '0')}`)
    t.equal(parse(responses[2] ?? '').result.length, logs.length)
  })

  const postText = async (body: string): Promise<string> => {
    const response = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
    return response.text()
  }

  const textOf = (result = '0x') => Buffer.from(result.slice(2), 'hex').toString().slice(0, -1) // without the end of the request

  t.test('parameters reach the node as the caller meant them, or are refused, and no other question is given their answer', async () => {
    /** The node's result is the text of the parameters that it has received, as hex. */
    const askAll = async (questions: readonly string[]): Promise<void> => {
      const requests = questions.map((params, id) => `{"jsonrpc":"2.0","id":${id},"method":"eth_call","params":${params}}`)
      const replies = JSON.parse(await postText(`[${requests.join()}]`)) as { result?: string; error?: { code: number } }[]
      for (const [i, params] of questions.entries()) {
        const { result, error } = replies[i] ?? {}
        if (error === undefined) deepStrictEqual(withNamesAsTexts(textOf(result)), withNamesAsTexts(params), params)
        else deepStrictEqual([error.code, hasInexactNumber(params)], [-32602, true], params)
      }
    }
    const questions = fc.array(value, { minLength: 1, maxLength: 8 }).map(all => all.map(one => `[{"x":${one}},"0x10",{"y":${one}}]`))
    await fc.assert(
      fc.asyncProperty(questions, async asked => {
        await askAll(asked)
        await askAll([...asked].reverse())
      }),
      { numRuns: 50 },
    )
  })

  t.test('a batch of 1,000 different calls to one node that takes 50 ms is answered, over HTTP and over WebSocket', async t => {
    node.setResponse('eth_getBalance', async ({ params }) => {
      await new Promise(resolve => setTimeout(resolve, 50)) // the node is slow
      return { result: params[0] }
    })
    const addressOf = (i: number) => `0x${i.toString(16).padStart(40, '0')}`
    const batchFrom = (first: number) =>
      JSON.stringify(
        Array.from({ length: 1000 }, (_, i) => ({
          jsonrpc: '2.0',
          id: first + i,
          method: 'eth_getBalance',
          params: [addressOf(first + i)],
        })),
      )
    const expected = (first: number) =>
      Array.from({ length: 1000 }, (_, i) => ({ jsonrpc: '2.0', id: first + i, result: addressOf(first + i) }))
    const response = await post(url, batchFrom(0))
    deepStrictEqual(response.json(), expected(0))
    t.equal(response.headers['x-tollgate-credits'], '80000')
    const talker = await connectWs(wsUrl)
    talker.send(batchFrom(5000))
    deepStrictEqual(await talker.nextMessage(), expected(5000))
    await talker.close()
  })

  t.test('a batch whose calls are all refused says that it cost nothing', async t => {
    for (const batch of [
      '[1]',
      '[{"jsonrpc":"2.0","id":1,"method":"eth_nothing"}]',
      '[{"jsonrpc":"2.0","id":1,"method":"eth_call"},{"id":2}]',
    ]) {
      t.equal((await post(url, batch)).headers['x-tollgate-credits'], '0', batch)
    }
  })
})
