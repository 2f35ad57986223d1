import t from '../support/tap.ts'
import type { Json } from '../../src/plugin/call.ts'
import { answerOf, headAnswers, officialChainId, recordedAnswers } from '../plugins/verify/official-chain.ts'
import { networkFile, startGateway } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import type { ScriptedResponse } from '../support/fake-node.ts'
import { connectWs, post } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'

const methods = [...new Set([...recordedAnswers.map(({ method }) => method), 'eth_blockNumber', 'eth_getBlockByHash'])]
const notRecorded: ScriptedResponse = { error: { code: -32000, message: 'not recorded' } }

/** One digit of the last hash, or of the last long value, is another one. */
const withOtherDigit = (value: Json): Json =>
  JSON.parse(
    JSON.stringify(value).replace(
      /(.*0x[0-9a-f]{62,})([0-9a-f])/,
      (_, before: string, digit: string) => before + (digit === '0' ? '1' : '0'),
    ),
  )

/** What no hash, root or bloom of the answer shows. */
const isCheckable = (method: string): boolean => /Block|Transaction|Logs/.test(method)

t.test('recorded answers of the official test chain', async t => {
  const liar = { isLying: false }
  const startNode = (i: number) =>
    startFakeNode({
      eth_chainId: { result: `0x${officialChainId.toString(16)}` },
      ...Object.fromEntries(
        methods.map(method => [
          method,
          ({ params }: { readonly params: readonly unknown[] }) => {
            const value = answerOf(method, params as readonly Json[]) // as requests have them
            if (value === undefined) return notRecorded
            return { result: i === 0 && liar.isLying && method !== 'eth_blockNumber' ? withOtherDigit(value) : value }
          },
        ]),
      ),
    })
  const nodes = await Promise.all([0, 1, 2].map(startNode))
  t.teardown(() => Promise.all(nodes.map(node => node.stop())))
  const urls = nodes.map(({ url }) => url)
  const devnet = { ...networkFile('devnet', urls, { verify: {}, 'network-access': false }), chainId: officialChainId }
  const { gateway, deployment, id, key, url } = await startGateway(t, { networks: { devnet } })
  await deployment.run('keys', 'set', id, '--verify', 'proof')
  const wish = { 'tollgate-verify': 'proof' }
  const ask = async ({ method, params }: { readonly method: string; readonly params: readonly Json[] }, headers = {}) => {
    const response = await post(url, JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }), { headers })
    return { ...response.json(), verified: response.headers['x-tollgate-verified'] }
  }
  await waitUntil(async () => (await ask({ method: 'eth_getBalance', params: headAnswers[0]!.params }, wish)).error?.code !== -32091)

  await t.test('pass each method by check, of each fork', async t => {
    t.ok(recordedAnswers.length > 20)
    for (const recorded of recordedAnswers)
      t.match(await ask(recorded), { result: recorded.result, verified: isCheckable(recorded.method) ? 'check' : 'none' }, recorded.name)
  })

  await t.test(
    'are proven where all of the block is recorded, over HTTP and a WebSocket, whatever digit one node of three changes',
    async t => {
      liar.isLying = true
      const socket = await connectWs(gateway.ws(key), { headers: wish })
      t.teardown(() => socket.close())
      t.ok(new Set(headAnswers.map(({ method }) => method)).size >= 8)
      for (const recorded of headAnswers) {
        t.match(await ask(recorded, wish), { result: recorded.result, verified: 'proof' }, recorded.name)
        t.match(await socket.call(recorded.method, recorded.params), { result: recorded.result }, recorded.name)
      }
      t.ok((await gateway.metric('tollgate_upstream_lies_total', { upstream: 'node-1' })) > 0, 'the digit matters')
      await socket.close()
      t.equal(await gateway.stop(), 0)
    },
  )
})
