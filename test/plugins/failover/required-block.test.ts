import t from '../../support/tap.ts'
import type { Test } from 'tap'
import type { Call, ContextKey, Json } from '../../../src/plugin/call.ts'
import { refuse } from '../../../src/plugin/reply.ts'
import type { Reply } from '../../../src/plugin/reply.ts'
import { fakeCall, fakeResult, valueOrErrorCode } from '../../support/fakes.ts'
import { ancestorAt } from '../../support/model-chain.ts'
import { openModelHeads } from '../../services/chain-heads/model-heads.ts'
import { failure, getReceipt, openFailover, rateLimited } from './failover-fixture.ts'

/** Callers have been told of block 100, which `b` has; `a`, which is listed first, has block 99. */
const openLagging = async (t: Pick<Test, 'teardown'>, lagBlocks = 1) => {
  const model = openModelHeads(['a', 'b'], 10)
  const catchUp = (number: number) => {
    model.nodeOf('a').head = ancestorAt(model.chain.tip, number) ?? model.chain.tip
  }
  catchUp(100 - lagBlocks)
  await model.recordCall()
  let isFailing = false
  let isHanging = false
  const hang = ({ signal, origin }: Call<ContextKey>) =>
    new Promise<Reply>(resolve =>
      (signal ?? origin.signal).addEventListener('abort', () => resolve(refuse('unavailable', { fault: 'caller' }))),
    )
  const responders = {
    a: (call: Call<ContextKey>) => (isHanging ? hang(call) : fakeResult('a')),
    b: () => (isFailing ? failure('b', { unresponsive: true }) : fakeResult('b')),
  }
  const { request, requested, clock: callClock } = openFailover(t, responders, {}, { heads: model.heads })
  t.teardown(model.stop)
  const call = (method: string, ...params: readonly Json[]) => request(fakeCall(method, params)).then(valueOrErrorCode)
  return {
    ...model,
    catchUp,
    call,
    requested,
    /** Time passes for heads and for calls. */
    advanceAll: async (ms: number) => {
      callClock.advance(ms)
      await model.advance(ms)
    },
    /** From now on `b` answers polls, but no calls. */
    failCalls: () => {
      isFailing = true
    },
    /** From now on `a` answers polls, but no calls. */
    hangCalls: () => {
      isHanging = true
    },
  }
}

t.test('a call about the newest block goes to a node that has the reported block', async t => {
  const { call } = await openLagging(t)
  t.equal(await call('eth_call', {}, 'latest'), 'b')
  t.equal(await call('eth_call', {}, 'pending'), 'b')
  t.equal(await call('eth_call', {}), 'b')
  t.equal(await call('eth_getLogs', { fromBlock: '0x1', toBlock: 'latest' }), 'b')
})

t.test('a call about a block by its number goes to a node that has it', async t => {
  const { call } = await openLagging(t)
  t.equal(await call('eth_call', {}, '0x63'), 'a')
  t.equal(await call('eth_call', {}, '0x64'), 'b')
})

t.test('a call about a block above the reported height goes to a node that has that height', async t => {
  const { call, catchUp, clock, settle, requested, failCalls } = await openLagging(t)
  t.equal(await call('eth_call', {}, '0x65'), 'b')
  const getLogs = () => call('eth_getLogs', { fromBlock: '0x60', toBlock: '0x3e8' })
  t.equal(await getLogs(), 'b', 'the other would leave out block 100, which callers know')
  failCalls()
  const reply = getLogs()
  await settle()
  t.same(requested, ['b', 'b', 'b'], 'a node that is behind is waited for')
  catchUp(100)
  clock.advance(100)
  await settle()
  t.equal(await reply, 'a')
})

t.test('when no node that has the block can answer, the call waits until another one has it', async t => {
  const { call, catchUp, clock, settle, requestCount, requested, failCalls } = await openLagging(t)
  failCalls()
  const reply = call('eth_call', {}, 'latest')
  await settle()
  const polls = requestCount()
  clock.advance(99)
  await settle()
  t.equal(requestCount(), polls)
  clock.advance(1)
  await settle()
  t.equal(requestCount(), polls + 1, 'the node is polled every 100 ms')
  t.same(requested, ['b'])
  catchUp(100)
  clock.advance(100)
  await settle()
  t.equal(await reply, 'a')
})

t.test('the call waits no longer than until a node that has the block may be requested again', async t => {
  const model = openModelHeads(['a', 'b'], 10)
  model.nodeOf('a').head = ancestorAt(model.chain.tip, 99) ?? model.chain.tip
  await model.recordCall()
  t.teardown(model.stop)
  let isRateLimiting = true
  const responders = { b: () => (isRateLimiting ? rateLimited(1) : fakeResult('b')) }
  const { request, requested, clock } = openFailover(t, responders, {}, { heads: model.heads })
  const first = request(fakeCall('eth_call', [{}, 'latest']))
  await model.settle()
  isRateLimiting = false
  const second = request(fakeCall('eth_call', [{}, 'latest']))
  await model.settle()
  t.same(requested, ['b'], 'both wait for the node that lacks the block')
  clock.advance(1000)
  await model.advance(100)
  t.same(requested, ['b', 'b'])
  t.equal(valueOrErrorCode(await second), 'b')
  await model.advance(4000)
  t.equal(valueOrErrorCode(await first), -32002, 'a node is requested once in a call')
})

t.test('what a call has waited for a node counts as its time', async t => {
  const { call, catchUp, advanceAll, settle, requested, failCalls, hangCalls } = await openLagging(t)
  failCalls()
  hangCalls()
  const getLogs = () => call('eth_getLogs', { fromBlock: '0x60', toBlock: 'latest' })
  const replies: unknown[] = []
  void getLogs().then(reply => replies.push(reply))
  await settle()
  void getLogs().then(reply => replies.push(reply))
  await advanceAll(3500)
  catchUp(100)
  await advanceAll(300)
  t.same(requested, ['b', 'a', 'a'], 'the breaker of b has opened before the second call')
  await advanceAll(6100)
  t.same(replies, [])
  await advanceAll(100)
  t.same(replies, [-32005, -32005])
})

t.test('when no node gets the block within 4 s, no node is asked', async t => {
  const { call, advance, settle, requested, failCalls } = await openLagging(t)
  failCalls()
  const reply = call('eth_call', {}, 'latest')
  await settle()
  await advance(4000)
  t.equal(await reply, -32002)
  t.same(requested, ['b'])
})

t.test('nobody waits for a node that lags too far behind', async t => {
  const { call, requested, failCalls } = await openLagging(t, 20)
  failCalls()
  t.equal(await call('eth_call', {}, 'latest'), -32002)
  t.same(requested, ['b'])
})

t.test('a receipt that a node lacks comes from a node that has the reported block, however the nodes are listed', async t => {
  const model = openModelHeads(['a', 'b'], 10)
  model.nodeOf('a').head = ancestorAt(model.chain.tip, 99) ?? model.chain.tip
  await model.recordCall()
  t.teardown(model.stop)
  // As in a worker that knows the reported height already, and the heads of the nodes not yet.
  const heads = Object.assign(model.heads, { rankOf: () => 0 })
  let isMined = true
  const responders = { a: () => fakeResult(null), b: () => fakeResult(isMined ? 'receipt' : null) }
  const { request, requested, log } = openFailover(t, responders, {}, { heads })
  const getReceiptOnce = async () => {
    requested.length = 0
    return [valueOrErrorCode(await request(getReceipt())), requested.join()]
  }
  for (let i = 0; i < 10; i++) t.same(await getReceiptOnce(), ['receipt', 'a,b'])
  t.same(log.lines, [], 'the node is not deprioritized for it')
  isMined = false
  t.same(await getReceiptOnce(), [null, 'a,b'])
  model.nodeOf('a').head = model.chain.tip
  await model.advance(500)
  t.same(await getReceiptOnce(), [null, 'a'])
})

t.test('a block of the chain, by its hash, comes from another node where the first is as high, on another branch', async t => {
  const model = openModelHeads(['a', 'b'], 10)
  await model.recordCall()
  t.teardown(model.stop)
  const { chain, nodeOf, heads, advance } = model
  chain.mine()
  const newest = chain.tip
  nodeOf('b').head = newest
  await advance(500)
  chain.fork(1, 1)
  const replaced = chain.tip
  nodeOf('a').head = replaced
  await advance(500)
  t.equal(heads.isKnownBlock(newest.hash), true)
  const { request, requested } = openFailover(t, { a: () => fakeResult(null), b: () => fakeResult('b') }, {}, { heads })
  const call = async (method: string, hash: string) => {
    requested.length = 0
    return [valueOrErrorCode(await request(fakeCall(method, [hash]))), requested.join()]
  }
  t.same(await call('eth_getBlockByHash', newest.hash), ['b', 'a,b'])
  t.same(await call('eth_getBlockTransactionCountByHash', newest.parent?.hash ?? ''), ['b', 'a,b'])
  t.same(await call('eth_getBlockByHash', `0x${'12'.repeat(32)}`), [null, 'a'], 'nobody has told of such a block')
  t.same(await call('eth_getUncleByBlockHashAndIndex', newest.hash), [null, 'a'], 'a block has no uncle mostly')
  t.same(await call('eth_getBlockByHash', replaced.hash), [null, 'a'])
  await heads.reportHeight('a', replaced.number, replaced.hash)
  t.same(await call('eth_getBlockByHash', replaced.hash), ['b', 'a,b'], 'a caller was told of it')
  const known = Array.from({ length: 100 }, (_, i) => `0x${String(i).padStart(64, '0')}`)
  for (const hash of known) await heads.reportHeight('a', replaced.number, hash)
  t.equal(known.filter(hash => heads.isKnownBlock(hash)).length, 64, 'the number of remembered blocks is bounded')
})

t.test('what is not about the newest block goes to any node', async t => {
  const { call, failCalls } = await openLagging(t)
  failCalls()
  t.equal(await call('eth_getTransactionReceipt', `0x${'12'.repeat(32)}`), 'a')
  t.equal(await call('eth_sendRawTransaction', '0x02'), 'a')
  t.equal(await call('eth_call', {}, 'earliest'), 'a')
  t.equal(await call('eth_call', {}, `0x${'12'.repeat(32)}`), 'a')
})
