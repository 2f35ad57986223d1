import t from '../support/tap.ts'
import type { Call, Origin } from '../../src/plugin/call.ts'
import { refuse } from '../../src/plugin/reply.ts'
import type { Reply } from '../../src/plugin/reply.ts'
import { createMessageParser } from '../../src/json-rpc/parse-message.ts'
import { ReloadableEndpoints } from '../../src/server/reloadable-endpoints.ts'
import { TestClock, TestLog, fakeAccessLog, fakeResult } from '../support/fakes.ts'

// Networks whose results are the number of the reload that brought their pipeline.

const limits = { body: 1, depth: 9, batch: 9, batchReply: 1, batchConcurrency: 9, batchTimeout: 9 }
const handlerBase = { parse: createMessageParser(limits), limits, clock: new TestClock(), log: new TestLog(), accessLog: fakeAccessLog }

const networkOf = (name: string, hosts: readonly string[], reload: number) => ({
  name,
  hosts,
  admit: () => (reload === 0 ? undefined : refuse('key')),
  run: () => Promise.resolve(fakeResult(reload)),
})

const [call, origin] = [{} as Call, {} as Origin] // nothing of them is read
const resultOf = async (reply: Reply | Promise<Reply>) => String(((await reply) as { readonly result?: unknown }).result)

t.test('an endpoint that was found before a reload runs the pipeline of after it', async t => {
  const endpoints = new ReloadableEndpoints([networkOf('one', ['a', 'b'], 0)], handlerBase)
  const { byHost } = endpoints
  const endpoint = byHost.get('a')!
  t.equal(byHost.get('b'), endpoint, 'both hosts name one network')
  t.equal(endpoint.admit(origin), undefined)
  t.equal(await resultOf(endpoint.messageHandler.run(call)), '0')
  endpoints.replace([networkOf('one', ['b', 'c'], 1)])
  t.match(endpoint.admit(origin), { kind: 'key' })
  t.equal(await resultOf(endpoint.messageHandler.run(call)), '1')
  t.same([...byHost.keys()], ['b', 'c'])
  t.equal(byHost.get('c'), endpoint)
  t.notOk(endpoint.isRemoved)
})

t.test('what still comes to a network that a reload has removed is refused', async t => {
  const endpoints = new ReloadableEndpoints([networkOf('one', ['a'], 0), networkOf('two', ['b'], 0)], handlerBase)
  const endpoint = endpoints.byHost.get('a')!
  endpoints.replace([networkOf('two', ['a'], 0)])
  t.equal(endpoint.isRemoved, true)
  t.match(endpoint.admit(origin), { kind: 'notFound', error: { message: /no longer served/ } })
  t.match(await endpoint.messageHandler.run(call), { kind: 'notFound' })
  t.equal(endpoints.byHost.get('a')?.name, 'two', 'its host names another network')
})
