import t from 'tap'
import { FilterValues } from '../../../plugins/subscriptions/filter-values.ts'
import { Filters } from '../../../plugins/subscriptions/filters.ts'
import type { FilterRequest } from '../../../plugins/subscriptions/filters.ts'
import { parseLogFilter } from '../../../plugins/subscriptions/log-filter.ts'
import type { Json } from '../../../src/plugin/call.ts'
import { createMetricsRegistry } from '../../../src/services/metrics.ts'
import type { PeerHandler, Peers } from '../../../src/services/peers.ts'
import { TestClock } from '../../support/fakes.ts'

/** Workers that reach each other by name, over JSON as through the primary. */
const openWorkers = (count: number) => {
  const clock = new TestClock()
  const handlers = new Map<string, PeerHandler>()
  const feedUsers = { newHeads: 0, logs: 0 }
  let isFeedRunning = true
  const workers = Array.from({ length: count }, (_, i) => {
    const name = String(i).repeat(16)
    const peers: Peers = {
      name,
      serve: handler => void handlers.set(name, handler),
      request: async (peer, payload) => {
        const answer = await handlers.get(peer)?.(JSON.parse(JSON.stringify(payload)) as Json)
        return answer === undefined ? undefined : (JSON.parse(JSON.stringify(answer)) as Json)
      },
    }
    const feedOf = (kind: 'newHeads' | 'logs') => ({
      retain: async () => {
        feedUsers[kind] += 1
        return isFeedRunning
      },
      release: () => void (feedUsers[kind] -= 1),
    })
    return new Filters({ clock, peers, filterValues: new FilterValues(), metrics: createMetricsRegistry(), feedOf })
  })
  const stopFeed = (): void => {
    isFeedRunning = false
  }
  return { clock, workers, feedUsers, stopFeed, kill: (i: number) => handlers.delete(String(i).repeat(16)) }
}

const create = async (filters: Filters, account = 'alice', maxPerAccount = 10): Promise<string> => {
  const id = await filters.create({ kind: 'newHeads' }, account, maxPerAccount)
  if (typeof id !== 'string') throw new Error(id.error.message)
  return id
}

const appendTo = (filters: Filters, ...changes: readonly string[]): void => {
  for (const filter of filters.of('newHeads')) filter.append(changes)
}

const request = (filters: Filters, action: FilterRequest['action'], id: string, account = 'alice') =>
  filters.request({ action, id, account })

t.test('a filter', async t => {
  t.test('is polled and uninstalled through any worker, by its account alone', async t => {
    const { workers, feedUsers } = openWorkers(2)
    const [owner, other] = workers as [Filters, Filters]
    const id = await create(owner)
    for (const filters of [owner, other]) {
      appendTo(owner, '"0x1"', '"0x2"')
      t.same(await request(filters, 'changes', id, 'bob'), undefined)
      t.same(await request(filters, 'changes', id), { text: '["0x1","0x2"]', count: 2 })
      t.same(await request(filters, 'changes', id), { text: '[]', count: 0 })
    }
    t.same(await request(other, 'criteria', id), undefined, 'it is not about logs')
    t.equal(await request(other, 'uninstall', id, 'bob'), undefined)
    t.same(await request(other, 'uninstall', id), { isRemoved: true })
    t.equal(await request(other, 'uninstall', id), undefined)
    t.equal(feedUsers.newHeads, 0)
  })

  t.test('ends with its worker', async t => {
    const { workers, kill } = openWorkers(2)
    const [owner, other] = workers as [Filters, Filters]
    const id = await create(owner)
    kill(0)
    t.equal(await request(other, 'changes', id), undefined)
  })

  t.test('of logs keeps its criteria', async t => {
    const { workers } = openWorkers(1)
    const [filters] = workers as [Filters]
    const criteria = { address: '0x1', fromBlock: 'latest' }
    const filter = parseLogFilter(criteria, 'eth_newFilter')
    if ('error' in filter) throw new Error(filter.error.message)
    const id = await filters.create({ kind: 'logs', filter, request: criteria }, 'alice', 10)
    t.same(await request(filters, 'criteria', String(id)), { criteria })
  })

  t.test('of logs counts by its addresses and topics until it is removed', async t => {
    const { workers } = openWorkers(1)
    const [filters] = workers as [Filters]
    const createLarge = (account: string) => {
      const filter = parseLogFilter({ address: Array.from({ length: 40_000 }, (_, i) => `0x${i}`) }, 'eth_newFilter')
      if ('error' in filter) throw new Error(filter.error.message)
      return filters.create({ kind: 'logs', filter, request: {} }, account, 10)
    }
    const [first] = [await createLarge('alice'), await createLarge('alice')]
    t.match(await createLarge('alice'), { error: { code: -32005, message: /at most 100000 addresses and topics/ } })
    t.type(await createLarge('bob'), 'string')
    await request(filters, 'uninstall', String(first))
    t.type(await createLarge('alice'), 'string')
  })

  t.test('ends after 5 minutes without use', async t => {
    const { workers, clock, feedUsers } = openWorkers(1)
    const [filters] = workers as [Filters]
    const [used, unused] = [await create(filters), await create(filters)]
    clock.advance(200_000)
    t.ok(await request(filters, 'changes', used))
    clock.advance(110_000)
    t.equal(feedUsers.newHeads, 1)
    t.ok(await request(filters, 'changes', used))
    t.equal(await request(filters, 'changes', unused), undefined)
    clock.advance(310_000)
    t.equal(feedUsers.newHeads, 0)
  })

  t.test('ends when it holds too many changes', async t => {
    const { workers, feedUsers } = openWorkers(1)
    const [filters] = workers as [Filters]
    const [many, long] = [await create(filters), await create(filters)]
    appendTo(filters, ...Array.from({ length: 10_000 }, () => '1'))
    t.match(await request(filters, 'changes', many), { count: 10_000 }, 'so many it may hold')
    appendTo(filters, '1')
    t.equal(await request(filters, 'changes', long), undefined)
    t.match(await request(filters, 'changes', many), { count: 1 })
    appendTo(filters, 'x'.repeat((8 << 20) + 1))
    t.equal(await request(filters, 'changes', many), undefined)
    t.equal(feedUsers.newHeads, 0)
  })

  t.test('that was used longest ago ends when those of its account hold too much', async t => {
    const { workers } = openWorkers(1)
    const [filters] = workers as [Filters]
    const ids: string[] = []
    for (let i = 0; i < 5; i++) ids.push(await create(filters))
    await request(filters, 'changes', ids[0] ?? '')
    appendTo(filters, 'x'.repeat(7 << 20))
    const isLeft = await Promise.all(ids.map(async id => (await request(filters, 'changes', id)) !== undefined))
    t.same(isLeft, [true, false, true, true, true])
    appendTo(filters, 'x'.repeat(7 << 20))
    t.equal(filters.of('newHeads').size, 4, 'what was polled is held no longer')
  })

  t.test('is not lost to those of another account', async t => {
    const { workers } = openWorkers(1)
    const [filters] = workers as [Filters]
    const victim = await create(filters, 'victim')
    appendTo(filters, 'x'.repeat(7 << 20))
    for (const attacker of ['a', 'b', 'c']) for (let i = 0; i < 10; i++) await create(filters, attacker)
    for (let i = 0; i < 5; i++)
      for (const filter of filters.of('newHeads')) if (filter.account !== 'victim') filter.append(['x'.repeat(1 << 20)])
    const held = [...filters.of('newHeads')].map(({ account, size }) => ({ account, size }))
    t.ok(held.reduce((sum, { size }) => sum + size, 0) <= 64 << 20)
    for (const attacker of ['a', 'b', 'c']) t.ok(held.filter(({ account }) => account === attacker).length >= 3, 'they share the rest')
    t.match(await request(filters, 'changes', victim, 'victim'), { count: 1 })
  })

  t.test('is not created above the limit of the account, nor without its feed', async t => {
    const { workers, feedUsers, stopFeed } = openWorkers(1)
    const [filters] = workers as [Filters]
    const errorOf = async (account: string) => filters.create({ kind: 'newHeads' }, account, 2)
    await create(filters, 'alice', 2)
    const concurrent = await Promise.all([errorOf('alice'), errorOf('alice')])
    t.equal(concurrent.filter(result => typeof result === 'string').length, 1)
    t.match(await errorOf('alice'), { error: { code: -32005, message: 'too many filters: at most 2 of one account' } })
    stopFeed()
    t.match(await errorOf('bob'), { error: { code: -32002 } })
    t.equal(feedUsers.newHeads, 2)
  })
})
