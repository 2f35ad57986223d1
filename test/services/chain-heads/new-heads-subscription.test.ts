import t from '../../support/tap.ts'
import { Secret } from '../../../src/plugin/secret.ts'
import { NewHeadsSubscription } from '../../../src/services/chain-heads/new-heads-subscription.ts'
import { TestClock, TestLog } from '../../support/fakes.ts'
import { blockJson, hashOf, startFakeSubscriptionNode } from '../../support/fake-subscription-node.ts'
import type { FakeSubscriptionNode } from '../../support/fake-subscription-node.ts'
import { waitUntil } from '../../support/wait-until.ts'

const blockHeader = (number: number) => ({ number, hash: hashOf(number), parentHash: hashOf(number - 1), header: '' })

/** A subscription to a node of chain 1, and what it reports. Stale after 4 s without a head. */
const openSubscription = async (t: Teardown, running?: FakeSubscriptionNode) => {
  const node = running ?? (await startFakeSubscriptionNode(1))
  const clock = new TestClock()
  const events: string[] = []
  const subscription = new NewHeadsSubscription({
    upstream: 'own',
    log: Object.assign(new TestLog(), { warn: ({ cause }: { cause?: string }) => events.push(`failed: ${cause}`) }),
    url: new Secret(`${node.url}/canary`),
    chainId: 1,
    staleAfterMs: 4000,
    clock,
    random: () => 0.5,
    onHead: ({ number }) => events.push(`head ${number}`),
    onSubscribed: isResubscription => events.push(isResubscription ? 'resubscribed' : 'subscribed'),
  })
  t.teardown(async () => {
    subscription.close()
    await node.stop()
  })
  /** All events since the last call, once this one is among them. */
  const next = async (event: string | RegExp) => {
    await waitUntil(() => events.some(each => (typeof event === 'string' ? each === event : event.test(each))))
    return events.splice(0)
  }
  return { node, clock, subscription, events, next }
}

type Teardown = Pick<typeof t, 'teardown'>

t.test('a subscription', async t => {
  t.test('starts once the node has returned the expected chain ID, and reports each head', async t => {
    const { node, subscription, next } = await openSubscription(t)
    t.notOk(subscription.isFresh)
    subscription.open()
    subscription.open()
    t.same(await next('subscribed'), ['subscribed'])
    t.same(node.requestedMethods, ['eth_chainId', 'eth_subscribe'])
    node.publish(blockJson(5))
    node.publish({ nonsense: true })
    node.publish(blockJson(6))
    t.same(await next('head 6'), ['head 5', 'head 6'])
    t.ok(subscription.isFresh)
  })

  t.test('reconnects after the node closed the connection, with growing delays, and checks the chain ID again', async t => {
    const { node, clock, subscription, events, next } = await openSubscription(t)
    subscription.open()
    await next('subscribed')
    node.publish(blockJson(5))
    await next('head 5')
    for (const delayMs of [375, 750, 1500]) {
      node.dropConnections()
      t.same(await next(/^failed/), ['failed: connection closed'])
      t.notOk(subscription.isFresh)
      clock.advance(delayMs - 1)
      await new Promise(setImmediate)
      t.equal(node.connectionCount, 0, `not before ${delayMs} ms`)
      clock.advance(1)
      t.same(await next(/subscribed$/), ['resubscribed'])
    }
    t.equal(node.requestedMethods.filter(method => method === 'eth_chainId').length, 4)
    node.publish(blockJson(6))
    await next('head 6')
    node.dropConnections()
    await next(/^failed/)
    clock.advance(375)
    t.same(await next(/subscribed$/), ['resubscribed'], 'a head resets the delay')
    t.same(events, [])
  })

  t.test('is fresh once a poll that was sent after it began has returned a head', async t => {
    const { clock, subscription, next } = await openSubscription(t)
    const beforeSubscription = clock.monotonic()
    clock.advance(1)
    subscription.open()
    await next('subscribed')
    t.notOk(subscription.isFresh)
    subscription.comparePolledHead(blockHeader(5), beforeSubscription)
    t.notOk(subscription.isFresh)
    subscription.comparePolledHead(blockHeader(5), clock.monotonic())
    t.ok(subscription.isFresh)
  })

  t.test('is stale after `staleAfterMs` without a head, until the next head', async t => {
    const { node, clock, subscription, next } = await openSubscription(t)
    subscription.open()
    await next('subscribed')
    subscription.comparePolledHead(blockHeader(4), clock.monotonic())
    clock.advance(3999)
    t.ok(subscription.isFresh)
    clock.advance(1)
    t.notOk(subscription.isFresh)
    node.publish(blockJson(5))
    await next('head 5')
    t.ok(subscription.isFresh)
  })

  t.test('reconnects when two polls have returned heads that the subscription has not', async t => {
    const { node, clock, subscription, events, next } = await openSubscription(t)
    subscription.open()
    await next('subscribed')
    node.publish(blockJson(5))
    await next('head 5')
    const comparePolled = (number: number) => subscription.comparePolledHead(blockHeader(number), clock.monotonic())
    comparePolled(5)
    comparePolled(5)
    comparePolled(6)
    t.same(events, [])
    node.publish(blockJson(6))
    await next('head 6')
    comparePolled(7)
    t.same(events, [])
    comparePolled(7)
    t.same(await next(/^failed/), ['failed: polls return heads that the subscription does not'])
    clock.advance(375)
    await next('resubscribed')
  })

  const failures: readonly [string, (node: FakeSubscriptionNode) => void, RegExp][] = [
    ['is on another chain', node => node.setResponse('eth_chainId', '0x5'), /^failed: wrong chain ID 5$/],
    [
      'fails eth_chainId',
      node => node.setResponse('eth_chainId', { error: { code: -32601, message: 'no' } }),
      /^failed: eth_chainId failed$/,
    ],
    [
      'fails eth_subscribe',
      node => node.setResponse('eth_subscribe', { error: { code: -32601, message: 'no' } }),
      /^failed: eth_subscribe failed$/,
    ],
  ]
  for (const [what, inject, cause] of failures) {
    t.test(`to a node that ${what} never starts, and reports that once`, async t => {
      const { node, clock, subscription, events, next } = await openSubscription(t)
      inject(node)
      subscription.open()
      t.match(await next(/^failed/), [cause])
      t.notOk(subscription.isFresh)
      clock.advance(300_000)
      await node.waitForRequests('eth_chainId', 2)
      await new Promise(setImmediate)
      t.same(events, [])
      t.notOk(node.requestedMethods.slice(1).includes('eth_getBlockByNumber'))
    })
  }

  t.test('fails without a response after 5 s', async t => {
    const { node, clock, subscription, next } = await openSubscription(t)
    node.setResponse('eth_subscribe', undefined)
    subscription.open()
    await node.waitForRequests('eth_subscribe', 1)
    clock.advance(5000)
    t.same(await next(/^failed/), ['failed: subscribing timed out'])
  })

  t.test('fails when a message is invalid JSON, too deep or too long', async t => {
    for (const text of ['nonsense', '['.repeat(1000), `"${'x'.repeat(200_000)}"`]) {
      const { node, subscription, next } = await openSubscription(t)
      subscription.open()
      await next('subscribed')
      node.sendText(text)
      t.match(await next(/^failed/), [/^failed: /])
    }
  })

  t.test('that cannot connect reports the cause without the URL', async t => {
    const node = await startFakeSubscriptionNode(1)
    await node.stop()
    const { subscription, next } = await openSubscription(t, { ...node, stop: async () => undefined })
    subscription.open()
    const [failure] = await next(/^failed/)
    t.match(failure, /connection refused/)
    t.notMatch(failure, /canary|127/)
  })

  t.test('to an invalid WebSocket URL does not throw', async t => {
    const node = await startFakeSubscriptionNode(1)
    const { subscription, next } = await openSubscription(t, { ...node, url: `${node.url}/#` })
    subscription.open()
    t.same(await next(/^failed/), ['failed: invalid WebSocket URL'])
  })

  t.test('stays closed until it is opened again', async t => {
    const { node, clock, subscription, events, next } = await openSubscription(t)
    subscription.open()
    await next('subscribed')
    subscription.close()
    await waitUntil(() => node.connectionCount === 0)
    clock.advance(600_000)
    await new Promise(setImmediate)
    t.same([node.connectionCount, events], [0, []])
    subscription.open()
    await next(/subscribed$/)
    subscription.close()
    subscription.close()
  })
})
