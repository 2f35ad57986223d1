import { setImmediate as turn } from 'node:timers/promises'
import t from '../../support/tap.ts'
import type { Test } from 'tap'
import { activityOf } from '../../../src/plugin/internal.ts'
import { refuse } from '../../../src/plugin/reply.ts'
import type { Failure, Reply } from '../../../src/plugin/reply.ts'
import { fakeCall, fakeResult, valueOrErrorCode } from '../../support/fakes.ts'
import { failure, getLogs, growth, node, openFailover, partner } from './failover-fixture.ts'
import type { Responder } from './failover-fixture.ts'

interface HungNodesOptions {
  readonly responders?: Record<string, Responder>
  readonly respondToProbe?: () => Reply
  /** Of the plugin. */
  readonly options?: object
}

/** Nodes of which some never answer; the plugin below failover probes a node that is silent. */
const openWithHungNodes = (
  t: Pick<Test, 'teardown'>,
  hung: readonly string[],
  { responders = {}, respondToProbe = () => failure('x'), options = {} }: HungNodesOptions = {},
) => {
  /** How to end the calls that wait for a hung node. */
  const pending: ((reply: Reply) => void)[] = []
  const left = { calls: 0 }
  const hang: Responder = ({ signal }) =>
    new Promise(resolve => {
      pending.push(resolve)
      signal?.addEventListener('abort', () => {
        left.calls += 1
        resolve(refuse('unavailable', { source: 'node', fault: 'caller', cause: 'client disconnected' }))
      })
    })
  const opened = openFailover(
    t,
    { b: () => fakeResult('b'), ...responders, ...Object.fromEntries(hung.map(name => [name, hang])) },
    { breaker: { openFor: 1000 }, ...options },
    { respondToProbe },
  )
  /** A call to this node is silent: the node is probed. */
  const probe = async (name: string) => {
    await turn()
    await activityOf(opened.targetOf(name)).isAlive(opened.services)
    await turn()
  }
  return { ...opened, pending, left, probe }
}

const sendCall = () => fakeCall('eth_call')
const queryTimeout = (): Failure =>
  refuse('timeout', { source: 'node', upstream: 'a', category: 'timeout', fault: 'upstream', retryElsewhere: true })

t.test('a node that hangs', async t => {
  t.test('loses all calls that wait for it to the next node, at the first proof', async t => {
    const { request, probe, left, countOf, log } = openWithHungNodes(t, ['a'])
    const replies = Array.from({ length: 30 }, () => request(sendCall())).concat(request(getLogs()))
    await probe('a')
    t.same((await Promise.all(replies)).map(valueOrErrorCode), Array(31).fill('b'))
    t.equal(left.calls, 31, 'their connections are free again')
    t.equal(valueOrErrorCode(await request(getLogs())), 'b')
    t.equal(countOf('a'), 31, 'new calls go elsewhere')
    t.match(log.lines[0], { message: 'upstream unresponsive', fields: { upstream: 'a' } })
  })

  t.test('is proven to hang by one probe, however many calls wait', async t => {
    const { request, probes, targetOf, services } = openWithHungNodes(t, ['a'])
    for (let i = 0; i < 5; i++) void request(sendCall())
    await turn()
    await Promise.all(Array.from({ length: 5 }, () => activityOf(targetOf('a')).isAlive(services)))
    t.same(probes, ['a eth_blockNumber'])
  })

  t.test('keeps a call that no other node can take, and the answer counts', async t => {
    const { request, probe, pending, left } = openWithHungNodes(t, ['a'], { options: { upstreams: [node('a')] } })
    const reply = request(getLogs())
    await probe('a')
    t.equal(left.calls, 0)
    const next = request(getLogs())
    await turn()
    for (const answer of pending) answer(fakeResult('a'))
    t.same([await reply, await next].map(valueOrErrorCode), ['a', 'a'], 'no breaker is open')
  })

  t.test('keeps a call that has been to all others', async t => {
    const { request, probe, pending, left } = openWithHungNodes(t, ['a', 'b'])
    const reply = request(getLogs())
    await probe('a')
    t.equal(left.calls, 1)
    await probe('b')
    t.equal(left.calls, 1)
    pending[1]!(fakeResult('b'))
    t.equal(valueOrErrorCode(await reply), 'b')
  })

  t.test('gets no further calls when it has answered nothing in the time of a call', async t => {
    const { request, probe, pending, countOf, advance } = openWithHungNodes(t, ['a'], { options: { upstreams: [node('a')] } })
    const reply = request(getLogs())
    await probe('a')
    pending[0]!(queryTimeout())
    t.equal(valueOrErrorCode(await reply), -32005, "the contract's error")
    t.match(await request(sendCall()), { status: 503 })
    t.equal(countOf('a'), 1)
    await advance(0)
  })

  t.test('still gets calls when it has answered another meanwhile', async t => {
    const { request, probe, pending, countOf, targetOf } = openWithHungNodes(t, ['a'], { options: { upstreams: [node('a')] } })
    const reply = request(getLogs())
    await probe('a')
    activityOf(targetOf('a')).recordResponse()
    pending[0]!(queryTimeout())
    await reply
    void request(sendCall())
    await turn()
    t.equal(countOf('a'), 2)
  })

  t.test('loses calls to the partner, where the plan allows it, and keeps the others', async t => {
    const { request, probe, pending, left } = openWithHungNodes(t, ['a'], {
      options: { upstreams: [node('a')], partner },
      responders: { p: () => fakeResult('p') },
    })
    const [forwarded, kept] = [request(getLogs(growth)), request(getLogs())]
    await probe('a')
    t.equal(valueOrErrorCode(await forwarded), 'p')
    t.equal(left.calls, 1)
    pending[1]!(fakeResult('a'))
    t.equal(valueOrErrorCode(await kept), 'a')
  })
})

t.test('a node that is slow', async t => {
  t.test('keeps its calls when it answers the probe', async t => {
    const { request, probe, left, countOf } = openWithHungNodes(t, ['a'], { respondToProbe: () => fakeResult('0x1') })
    void request(sendCall())
    await probe('a')
    void request(sendCall())
    await turn()
    t.equal(left.calls, 0)
    t.equal(countOf('a'), 2)
  })

  t.test('keeps its calls when it responds to any of them during the probe, or sends much', async t => {
    for (const work of ['response', 'bytes', 'few bytes'] as const) {
      const { request, probe, left, targetOf } = openWithHungNodes(t, ['a'], {
        respondToProbe: () => {
          if (work === 'response') activityOf(targetOf('a')).recordResponse()
          else activityOf(targetOf('a')).recordBytes(work === 'bytes' ? 20_000 : 200)
          return failure('a')
        },
      })
      void request(sendCall())
      await probe('a')
      t.equal(left.calls, work === 'few bytes' ? 1 : 0, work)
    }
  })
})
