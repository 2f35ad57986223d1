import t from '../../support/tap.ts'
import { FilterValues } from '../../../plugins/subscriptions/filter-memory.ts'
import { Filter } from '../../../plugins/subscriptions/filter.ts'
import type { FilterTopic } from '../../../plugins/subscriptions/filter.ts'
import { filterMethods } from '../../../plugins/subscriptions/filter-methods.ts'
import { Filters } from '../../../plugins/subscriptions/filters.ts'
import type { Fetch } from '../../../plugins/subscriptions/missed-changes.ts'
import { parseLogFilter } from '../../../plugins/subscriptions/log-filter.ts'
import { PublishedTip } from '../../../plugins/subscriptions/publishers.ts'
import type { FilterRequest } from '../../../plugins/subscriptions/remote-filters.ts'
import type { Json } from '../../../src/plugin/call.ts'
import type { BlockId, ChainUpdate, FilterRecords } from '../../../src/services/index.ts'
import { createMetricsRegistry } from '../../../src/services/metrics.ts'
import type { PeerHandler, Peers } from '../../../src/services/peers.ts'
import { openInMemoryFilterRecords } from '../../../src/testing/in-memory-store.ts'
import { TestClock, fakeAccount, fakeCall, unreachableNext } from '../../support/fakes.ts'

/** Workers that reach each other by name, over JSON as through the primary. */
const openWorkers = (count: number) => {
  const clock = new TestClock()
  const handlers = new Map<string, PeerHandler>()
  const feedUsers = { newHeads: 0, logs: 0 }
  let isFeedRunning = true
  let tip: BlockId | undefined
  const records = openInMemoryFilterRecords(clock)
  /** Workers that do not reach the store. */
  const stopped = new Set<number>()
  /** Workers whose answers do not arrive. */
  const late = new Set<number>()
  /** A worker is about to take a filter out of the store. */
  const beforeTake = { run: async (_worker: number): Promise<void> => undefined }
  /** An answer does not arrive. */
  const onLate = { run: async (): Promise<void> => undefined }
  /** A process that is closed is about to say that it has ended. */
  const onEnd = { run: (): unknown => undefined }
  let writtenFilters = 0
  const recordsOf = (i: number): FilterRecords => {
    const reach = () => (stopped.has(i) ? Promise.reject(new Error('no store')) : Promise.resolve())
    return {
      put: (kind, record) =>
        reach().then(() => {
          if (kind === 'filter') writtenFilters += 1
          return records.put(kind, record)
        }),
      find: (kind, id) => reach().then(() => records.find(kind, id)),
      take: (kind, id) =>
        reach().then(async () => {
          if (kind === 'filter-owner') onEnd.run()
          else await beforeTake.run(i)
          return records.take(kind, id)
        }),
    }
  }
  const workers = Array.from({ length: count }, (_, i) => {
    const name = String(i).repeat(16)
    const peers: Peers = {
      name,
      serve: handler => {
        handlers.set(name, handler)
        return () => handlers.delete(name)
      },
      request: async (peer, payload) => {
        const answer = await handlers.get(peer)?.answer(JSON.parse(JSON.stringify(payload)) as Json)
        if (answer !== undefined && late.has(Number(peer[0]))) {
          await onLate.run()
          return 'late'
        }
        return answer === undefined ? 'absent' : { payload: JSON.parse(JSON.stringify(answer)) as Json }
      },
    }
    const feedOf = (kind: 'newHeads' | 'logs') => ({
      retain: async () => {
        feedUsers[kind] += 1
        return isFeedRunning
      },
      release: () => void (feedUsers[kind] -= 1),
    })
    const network = { name: 'devnet', chainId: 1, blockTime: 1_000 }
    const tipOf = () => tip
    return new Filters({
      clock,
      peers,
      network,
      filterRecords: recordsOf(i),
      filterValues: new FilterValues(),
      metrics: createMetricsRegistry(),
      feedOf,
      tipOf,
    })
  })
  const stopFeed = (): void => {
    isFeedRunning = false
  }
  const publish = (update: ChainUpdate): void => {
    for (const filters of workers) filters.observe('newHeads', update)
    for (const block of update.added) {
      tip = block
      for (const filters of workers) for (const filter of filters.of('newHeads')) filter.append([`"${block.hash}"`], block)
    }
  }
  const disconnect = (i: number) => handlers.delete(String(i).repeat(16))
  /** As in a gateway of one process. */
  const withoutPeers = () => handlers.clear()
  return {
    clock,
    workers,
    feedUsers,
    stopFeed,
    publish,
    stopped,
    late,
    onLate,
    beforeTake,
    onEnd,
    handlers,
    disconnect,
    withoutPeers,
    kill: (i: number) => stopped.add(i) && disconnect(i),
    writtenFilters: () => writtenFilters,
  }
}

const create = async (filters: Filters, account = 'alice', maxPerAccount = 10): Promise<string> => {
  const id = await filters.create({ kind: 'newHeads' }, account, maxPerAccount)
  if (typeof id !== 'string') throw new Error(id.error.message)
  return id
}

const appendTo = (filters: Filters, ...changes: readonly string[]): void => {
  for (const filter of filters.of('newHeads')) filter.append(changes)
}

const poll = (filters: Filters, action: FilterRequest['action'], id: string, account = 'alice', fetch: Fetch = async () => undefined) =>
  filters.request({ action, id, account }, fetch)

/** The answer, which is delivered. */
const request = async (...args: Parameters<typeof poll>) => {
  const answer = await poll(...args)
  if (answer === undefined || !('text' in answer)) return answer
  const { onSettled, ...delivered } = answer
  onSettled(true)
  return delivered
}

/** The answer is not delivered. */
const drop = async (...args: Parameters<typeof poll>) => {
  const answer = await poll(...args)
  if (answer === undefined || !('text' in answer)) throw new Error('no changes')
  answer.onSettled(false)
  return answer.text
}

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

  t.test('ends when what it has delivered did not arrive', async t => {
    const { workers, clock, late, handlers } = openWorkers(2)
    const [owner, other] = workers as [Filters, Filters]
    const [first, second] = [await owner.create({ kind: 'newHeads' }, 'alice', 10, idAt(1)), await create(owner)]
    for (let i = 0; i < 8; i++) {
      clock.advance(250)
      await new Promise(setImmediate)
    }
    late.add(0)
    const polled = request(other, 'changes', String(first))
    for (let i = 0; i < 40; i++) {
      clock.advance(250)
      await new Promise(setImmediate)
    }
    t.equal(await polled, undefined)
    t.equal(await request(owner, 'changes', String(first)), undefined)
    handlers.get('0'.repeat(16))?.onUnsent({ action: 'criteria', id: second, account: 'alice' })
    t.ok(await request(owner, 'changes', second), 'nothing of it is lost')
    handlers.get('0'.repeat(16))?.onUnsent({ action: 'changes', id: second, account: 'bob' })
    t.ok(await request(owner, 'changes', second), 'nor by an answer to another account')
    handlers.get('0'.repeat(16))?.onUnsent({ action: 'changes', id: second, account: 'alice' })
    t.equal(await request(owner, 'changes', second), undefined)
  })

  t.test('brings again what was not delivered, before what has come since', async t => {
    const { workers } = openWorkers(1)
    const [filters] = workers as [Filters]
    const id = await create(filters)
    appendTo(filters, '1', '2')
    t.equal(await drop(filters, 'changes', id), '[1,2]')
    appendTo(filters, '3')
    t.equal(await drop(filters, 'changes', id), '[1,2,3]')
    t.same(await request(filters, 'changes', id), { text: '[1,2,3]', count: 3 })
    t.same(await request(filters, 'changes', id), { text: '[]', count: 0 })
  })

  t.test('ends when what was not delivered would come after later changes, or with too many', async t => {
    const { workers } = openWorkers(1)
    const [filters] = workers as [Filters]
    const [first, second] = [await create(filters), await create(filters)]
    const take = (id: string) => poll(filters, 'changes', id) as Promise<{ onSettled(isDelivered: boolean): void }>
    appendTo(filters, '1')
    const [older] = [await take(first), await take(first)]
    older.onSettled(false)
    t.equal(await request(filters, 'changes', first), undefined)
    const large = await take(second)
    appendTo(filters, ...Array.from({ length: 10_000 }, () => '1'))
    large.onSettled(false)
    t.equal(await request(filters, 'changes', second), undefined)
    large.onSettled(true)
    t.equal(filters.of('newHeads').size, 0)
  })

  t.test('ends when another process has not delivered what it has answered, also if it lives no longer', async t => {
    for (const isDead of [false, true]) {
      const { workers, clock, publish, kill } = openWorkers(2)
      const [owner, other] = workers as [Filters, Filters]
      const id = String(await owner.create({ kind: 'newHeads' }, 'alice', 10, idAt(1)))
      publish({ removed: [], added: [{ ...idAt(2), json: '' }] })
      const answer = await poll(other, 'changes', id)
      const pass = async (ms: number) => {
        for (let passed = 0; passed < ms; passed += 250) {
          clock.advance(250)
          await new Promise(setImmediate)
        }
      }
      await pass(2_000)
      if (isDead) kill(0)
      t.ok(answer !== undefined && 'text' in answer)
      if (answer !== undefined && 'text' in answer) answer.onSettled(false)
      await new Promise(setImmediate)
      const polled = request(other, 'changes', id, 'alice', fetchFrom(3))
      await pass(8_000)
      t.equal(await polled, undefined)
    }
  })

  t.test('ends when neither what it has delivered nor the store arrives, and stays when its criteria do not', async t => {
    const { workers, late, stopped } = openWorkers(2)
    const [owner, other] = workers as [Filters, Filters]
    const id = await create(owner)
    appendTo(owner, '"0x1"')
    late.add(0)
    stopped.add(1)
    t.match(await request(other, 'criteria', id), { error: { code: -32002 } })
    t.equal([...owner.of('newHeads')].length, 1)
    t.equal(await request(other, 'changes', id), undefined)
    late.clear()
    stopped.clear()
    t.equal(await request(other, 'changes', id), undefined, 'no later answer leaves out what was lost')
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

/** A chain of which each block is known by its number or hash: those of the branch `a`, or of `b` from block 3 on. */
const hashAt = (number: number, branch = 'a') => `0x${(number < 3 ? 'a' : branch).repeat(4)}${number.toString(16).padStart(60, '0')}`
const blockAt = (number: number, branch = 'a') => ({
  number: `0x${number.toString(16)}`,
  hash: hashAt(number, branch),
  parentHash: hashAt(number - 1, branch),
})
const idAt = (number: number, branch = 'a') => ({ number, hash: hashAt(number, branch), parentHash: hashAt(number - 1, branch) })

const fetchFrom =
  (head: number, branch = 'a'): Fetch =>
  async (method, [param]) => {
    const of = (log: string, number: number, at: string) => ({ log, blockHash: hashAt(number, at) })
    const known = Array.from({ length: head + 1 }, (_, number) => blockAt(number, branch))
    if (method === 'eth_getLogs') {
      const { blockHash, fromBlock, toBlock } = param as Record<string, string>
      const number = known.findIndex(({ hash }) => hash === blockHash)
      if (blockHash !== undefined) return number < 0 ? [of('1', 3, 'a'), of('2', 3, 'a')] : [of('1', number, branch)]
      return Array.from({ length: Number(toBlock) - Number(fromBlock) + 1 }, (_, i) => of('1', Number(fromBlock) + i, branch))
    }
    if (method === 'eth_getBlockByHash') return [...known, blockAt(3)].find(({ hash }) => hash === param) ?? null
    return (param === 'latest' ? known.at(-1) : known[Number(param)]) ?? null
  }

t.test('a filter whose process has ended', async t => {
  const createAt = (filters: Filters, topic: FilterTopic, base: BlockId) => filters.create(topic, 'alice', 10, base) as Promise<string>
  const logs: FilterTopic = (() => {
    const filter = parseLogFilter({}, 'eth_newFilter')
    if ('error' in filter) throw new Error(filter.error.message)
    return { kind: 'logs', filter, request: {} }
  })()
  const settle = async (clock: TestClock, ms: number) => {
    for (let left = ms; left > 0; left -= 250) {
      clock.advance(250)
      await new Promise(setImmediate)
    }
  }
  /** The answer to a poll that may have to wait. */
  const pollLater = async (clock: TestClock, filters: Filters, id: string, fetch: Fetch, account = 'alice') => {
    const answer = request(filters, 'changes', id, account, fetch)
    await settle(clock, 6_000)
    return answer
  }
  const textOf = (answer: unknown) => JSON.parse((answer as { text: string }).text) as unknown

  t.test('goes on in another, from the last block that was delivered', async t => {
    const { workers, clock, publish, kill } = openWorkers(2)
    const [owner, other] = workers as [Filters, Filters]
    const id = await createAt(owner, { kind: 'newHeads' }, idAt(1))
    publish({ removed: [], added: [{ ...idAt(2), json: '' }] })
    t.same(textOf(await request(owner, 'changes', id)), [hashAt(2)])
    await settle(clock, 1_000)
    kill(0)
    const polled = pollLater(clock, other, id, fetchFrom(4))
    t.equal(await pollLater(clock, other, id, fetchFrom(4), 'bob'), undefined, 'it is that of another account')
    t.same(textOf(await polled), [hashAt(3), hashAt(4)])
    publish({
      removed: [],
      added: [
        { ...idAt(4), json: '' },
        { ...idAt(5), json: '' },
      ],
    })
    t.same(textOf(await request(other, 'changes', id)), [hashAt(5)], 'what the feed brings once more is not repeated')
  })

  t.test('goes on from before what was not delivered', async t => {
    const { workers, clock, publish, kill } = openWorkers(2)
    const [owner, other] = workers as [Filters, Filters]
    const id = await createAt(owner, { kind: 'newHeads' }, idAt(1))
    publish({ removed: [], added: [{ ...idAt(2), json: '' }] })
    t.equal(await drop(owner, 'changes', id), JSON.stringify([hashAt(2)]))
    await settle(clock, 1_000)
    kill(0)
    t.same(textOf(await pollLater(clock, other, id, fetchFrom(3))), [hashAt(2), hashAt(3)])
  })

  t.test('delivers nothing any more while it ends, and goes on in another at once', async t => {
    const { workers, clock, publish, onEnd } = openWorkers(2)
    const [owner, other] = workers as [Filters, Filters]
    const id = await createAt(owner, { kind: 'newHeads' }, idAt(1))
    publish({ removed: [], added: [{ ...idAt(2), json: '' }] })
    await settle(clock, 1_000)
    let polled: unknown
    onEnd.run = () => (polled = request(owner, 'changes', id))
    await owner.close()
    t.match(await polled, { error: { code: -32002 } })
    await settle(clock, 1_000)
    t.same(textOf(await pollLater(clock, other, id, fetchFrom(3))), [hashAt(2), hashAt(3)])
  })

  t.test('takes back logs of blocks that are no longer on the chain', async t => {
    const { workers, clock } = openWorkers(2)
    const [owner, other] = workers as [Filters, Filters]
    const id = await createAt(owner, logs, idAt(2))
    owner.observe('logs', { removed: [], added: [{ ...idAt(3), json: '' }] })
    await request(owner, 'changes', id)
    const stored = { ...idAt(3) }
    for (const filter of owner.of('logs')) filter.position = stored
    await owner.close()
    const answer = textOf(await pollLater(clock, other, id, fetchFrom(4, 'b'))) as { log: string; blockHash: string; removed?: boolean }[]
    t.same(
      answer.map(({ log, blockHash, removed }) => `${log} ${blockHash.slice(2, 3)}${Number(blockHash.slice(-2))} ${removed === true}`),
      ['2 a3 true', '1 a3 true', '1 b3 false', '1 b4 false'],
    )
  })

  t.test('goes on from the last block that was delivered when the feed leaves the branch on which it went on', async t => {
    for (const [update, head, branch, wanted] of [
      [{ removed: [idAt(3)], added: [] }, 3, 'b', [hashAt(3, 'b')]],
      [{ removed: [], added: [{ ...idAt(3, 'b'), json: '' }] }, 4, 'b', [hashAt(3, 'b'), hashAt(4, 'b')]],
      [{ removed: [], added: [{ ...idAt(4, 'b'), json: '' }] }, 4, 'b', [hashAt(3, 'b'), hashAt(4, 'b')]],
      [{ removed: [], added: [{ ...idAt(6), json: '' }] }, 6, 'a', [hashAt(4), hashAt(5), hashAt(6)]],
    ] as const) {
      const { workers, clock } = openWorkers(2)
      const [owner, other] = workers as [Filters, Filters]
      const id = await createAt(owner, { kind: 'newHeads' }, idAt(2))
      await owner.close()
      t.same(textOf(await pollLater(clock, other, id, fetchFrom(3))), [hashAt(3)])
      other.observe('newHeads', update)
      t.equal(other.of('newHeads').size, 0)
      t.same(textOf(await pollLater(clock, other, id, fetchFrom(head, branch))), wanted)
    }
  })

  t.test('is not taken from a process that lives, nor one that is about pending transactions', async t => {
    const { workers, clock, disconnect } = openWorkers(2)
    const [owner, other] = workers as [Filters, Filters]
    const id = await createAt(owner, { kind: 'newHeads' }, idAt(1))
    const pending = await createAt(owner, { kind: 'newPendingTransactions' }, idAt(1))
    await settle(clock, 1_000)
    disconnect(0)
    t.match(await pollLater(clock, other, id, fetchFrom(4)), { error: { code: -32002 } })
    t.ok(await request(owner, 'changes', id))
    await owner.close()
    t.equal(await pollLater(clock, other, pending, fetchFrom(4)), undefined)
    t.ok(await pollLater(clock, other, id, fetchFrom(4)))
  })

  t.test('is uninstalled, and found by its criteria', async t => {
    const { workers, clock } = openWorkers(2)
    const [owner, other] = workers as [Filters, Filters]
    const id = await createAt(owner, logs, idAt(1))
    await owner.close()
    t.same(await request(other, 'criteria', id), { criteria: {} })
    t.same(await request(other, 'uninstall', id), { isRemoved: true })
    t.equal(await pollLater(clock, other, id, fetchFrom(4)), undefined)
  })

  t.test('waits until the upstreams answer', async t => {
    const { workers, clock, publish } = openWorkers(2)
    const [owner, other] = workers as [Filters, Filters]
    const id = await createAt(owner, logs, idAt(1))
    await owner.close()
    t.match(await pollLater(clock, other, id, async () => undefined), { error: { code: -32002 } })
    publish({ removed: [], added: [{ ...idAt(2), json: '' }] })
    t.match(await pollLater(clock, other, id, fetchFrom(1)), { error: { code: -32002 } }, 'they are behind what has been published')
    t.ok(await pollLater(clock, other, id, fetchFrom(2)))
  })

  t.test('goes on along one branch, though the upstreams are on several', async t => {
    for (const topic of [logs, { kind: 'newHeads' }] as const) {
      const { workers, clock } = openWorkers(2)
      const [owner, other] = workers as [Filters, Filters]
      const id = await createAt(owner, topic, idAt(2))
      await owner.close()
      const fetch: Fetch = async (method, params) => {
        const { fromBlock } = Object(params[0]) as { fromBlock?: Json }
        return fetchFrom(4, fromBlock !== undefined || params[0] === '0x3' ? 'a' : 'b')(method, params)
      }
      const changes = textOf(await pollLater(clock, other, id, fetch)) as (string | { readonly blockHash: string })[]
      const hashes = changes.map(change => (typeof change === 'string' ? change : change.blockHash))
      t.same(hashes, [hashAt(3, 'b'), hashAt(4, 'b')], topic.kind)
    }
  })

  t.test('is answered anew when a reorg comes while its changes are fetched', async t => {
    const { workers, clock, kill } = openWorkers(2)
    const [owner, other] = workers as [Filters, Filters]
    const id = await createAt(owner, { kind: 'newHeads' }, idAt(2))
    await settle(clock, 1_000)
    kill(0)
    let branch = 'a'
    const fetch: Fetch = (method, params) => {
      if (params[0] === '0x4') branch = 'b'
      return fetchFrom(4, branch)(method, params)
    }
    t.same(textOf(await pollLater(clock, other, id, fetch)), [hashAt(3, 'b'), hashAt(4, 'b')])
  })

  t.test('does not go back, when the upstream that has the head is behind one that has the last block', async t => {
    const { workers, clock } = openWorkers(2)
    const [owner, other] = workers as [Filters, Filters]
    const id = await createAt(owner, { kind: 'newHeads' }, idAt(4))
    await owner.close()
    const fetch: Fetch = (method, params) => fetchFrom(params[0] === 'latest' ? 3 : 4)(method, params)
    t.match(await pollLater(clock, other, id, fetch), { error: { code: -32002 } })
    t.same(textOf(await pollLater(clock, other, id, fetchFrom(5))), [hashAt(5)])
  })

  t.test('stays when the upstreams that are left do not have the newest blocks that have come', async t => {
    const lacking: readonly (readonly [FilterTopic, (method: string, params: readonly Json[]) => boolean])[] = [
      [{ kind: 'newHeads' }, (_method, [block]) => block === '0x5'],
      [{ kind: 'newHeads' }, (_method, [block]) => block === '0x4'],
      [logs, (_method, [block]) => block === '0x5'],
      [logs, method => method === 'eth_getLogs'],
    ]
    for (const [topic, isLacking] of lacking) {
      const { workers, clock } = openWorkers(2)
      const [owner, other] = workers as [Filters, Filters]
      const id = await createAt(owner, topic, idAt(4))
      await owner.close()
      const fetch: Fetch = async (method, params) => (isLacking(method, params) ? null : fetchFrom(5)(method, params))
      t.match(await pollLater(clock, other, id, fetch), { error: { code: -32002 } })
      t.equal((textOf(await pollLater(clock, other, id, fetchFrom(5))) as unknown[]).length, 1)
    }
  })

  t.test('of more missed blocks than those in which upstreams differ is answered whole', async t => {
    for (const topic of [logs, { kind: 'newHeads' }] as const) {
      const { workers, clock } = openWorkers(2)
      const [owner, other] = workers as [Filters, Filters]
      const id = await createAt(owner, topic, idAt(2))
      await owner.close()
      const changes = textOf(await pollLater(clock, other, id, fetchFrom(99))) as (string | { readonly blockHash: string })[]
      const hashes = changes.map(change => (typeof change === 'string' ? change : change.blockHash))
      t.same(
        hashes,
        Array.from({ length: 97 }, (_, i) => hashAt(3 + i)),
        topic.kind,
      )
    }
  })

  t.test('is polled by several callers at once while it is resumed', async t => {
    const { workers, clock, withoutPeers } = openWorkers(2)
    const [owner, other] = workers as [Filters, Filters]
    const id = await createAt(owner, { kind: 'newHeads' }, idAt(1))
    await owner.close()
    withoutPeers()
    let answerFirst = (): void => undefined
    const isAsked = new Promise<void>(resolve => (answerFirst = resolve))
    const fetchLater: Fetch = (...args) => isAsked.then(() => fetchFrom(3)(...args))
    const polled = [pollLater(clock, other, id, fetchLater), pollLater(clock, other, id, fetchLater)]
    await settle(clock, 20_000)
    t.same(textOf(await polled[1]), [], 'it is not lost for the second caller')
    answerFirst()
    t.same(textOf(await polled[0]), [hashAt(2), hashAt(3)])
  })

  t.test('goes on in one process alone, when two wait for the death of its own at once', async t => {
    const { workers, clock, publish, kill, beforeTake } = openWorkers(3)
    const [owner, second, third] = workers as [Filters, Filters, Filters]
    const id = await createAt(owner, { kind: 'newHeads' }, idAt(2))
    await settle(clock, 1_000)
    kill(0)
    beforeTake.run = async worker => {
      while (worker === 2 && second.of('newHeads').size === 0) await new Promise(setImmediate)
    }
    const polled = [pollLater(clock, second, id, fetchFrom(3)), pollLater(clock, third, id, fetchFrom(3))]
    await settle(clock, 10_000)
    t.same((await Promise.all(polled)).map(textOf), [[hashAt(3)], []])
    t.same(
      [second, third].map(filters => filters.of('newHeads').size),
      [1, 0],
    )
    publish({ removed: [], added: [{ ...idAt(4), json: '' }] })
    t.same(textOf(await request(third, 'changes', id)), [hashAt(4)])
    t.same(textOf(await request(second, 'changes', id)), [])
  })

  t.test('is uninstalled for good while it is resumed, and stays when the upstreams fail then', async t => {
    for (const action of ['uninstall', 'changes'] as const) {
      const { workers, clock } = openWorkers(2)
      const [owner, other] = workers as [Filters, Filters]
      const id = await createAt(owner, { kind: 'newHeads' }, idAt(1))
      await owner.close()
      let fail = (): void => undefined
      const failed = new Promise<undefined>(resolve => (fail = () => resolve(undefined)))
      const polled = pollLater(clock, other, id, () => failed)
      await settle(clock, 1_000)
      t.ok(await request(other, action, id))
      fail()
      await polled
      await settle(clock, 2_000)
      t.equal((await pollLater(clock, other, id, fetchFrom(2))) !== undefined, action === 'changes')
    }
  })

  t.test('does not repeat what came while it was resumed, when that process ends too', async t => {
    const { workers, clock, publish } = openWorkers(3)
    const [owner, other, third] = workers as [Filters, Filters, Filters]
    const id = await createAt(owner, { kind: 'newHeads' }, idAt(1))
    await owner.close()
    const fetch: Fetch = async (method, params) => {
      if (other.of('newHeads').size > 0 && params[0] === 'latest') publish({ removed: [], added: [{ ...idAt(4), json: '' }] })
      return fetchFrom(3)(method, params)
    }
    publish({ removed: [], added: [{ ...idAt(3), json: '' }] })
    t.same(textOf(await pollLater(clock, other, id, fetch)), [hashAt(2), hashAt(3), hashAt(4)])
    await other.close()
    t.same(textOf(await pollLater(clock, third, id, fetchFrom(5))), [hashAt(5)])
  })

  t.test('goes on from what its process wrote last, also after others have begun to look for it', async t => {
    const { workers, clock, publish, disconnect } = openWorkers(2)
    const [owner, other] = workers as [Filters, Filters]
    const id = await createAt(owner, { kind: 'newHeads' }, idAt(1))
    await settle(clock, 1_000)
    disconnect(0)
    const polled = pollLater(clock, other, id, fetchFrom(3))
    publish({ removed: [], added: [{ ...idAt(2), json: '' }] })
    t.same(textOf(await request(owner, 'changes', id)), [hashAt(2)])
    await owner.close()
    t.same(textOf(await polled), [hashAt(3)])
  })

  t.test('does not fall back behind what was delivered when it was resumed', async t => {
    const stored = { id: '0x1', account: 'alice', firstBlock: 1, position: idAt(2), writtenAt: 0 }
    const filter = new Filter({ ...stored, topic: { kind: 'newHeads' }, resumed: stored, usedAt: 0, onResize: () => undefined })
    const added = [4, 5].map(number => ({ ...idAt(number), json: '' }))
    t.ok(filter.follow({ removed: [], added }))
    t.ok(filter.resume({ changes: [], position: idAt(4), firstBlock: 1 }))
    filter.take(idAt(3)).settle(true)
    t.same(filter.position, idAt(4), 'the feed has announced block 5, and published block 3')
    filter.take(idAt(5)).settle(true)
    t.same(filter.position, idAt(5))
  })

  t.test('takes back no log of a block from before it, after a reorg that went below it and was not delivered', async t => {
    const filter = new Filter({
      id: '0x1',
      topic: { kind: 'newHeads' },
      account: 'alice',
      usedAt: 0,
      base: idAt(3),
      onResize: () => undefined,
    })
    t.ok(filter.follow({ removed: [idAt(3)], added: [3, 4].map(number => ({ ...idAt(number, 'b'), json: '' })) }))
    t.match(filter, { firstBlock: 3, position: idAt(3) })
    filter.take(idAt(4, 'b')).settle(true)
    t.match(filter, { firstBlock: 2, position: idAt(4, 'b') })
  })

  t.test('has a position on the chain after a reorg that went below the first block of the feed', async t => {
    const tip = new PublishedTip()
    tip.add(idAt(4))
    for (const number of [4, 3]) tip.remove(idAt(number))
    t.same(tip.block, { number: 2, hash: hashAt(2) })
    tip.remove({ number: 0, hash: hashAt(0), parentHash: '0x0' })
    t.equal(tip.block, undefined)
  })

  t.test('ends when an answer did not arrive, though the process that sent it has given the filter back since', async t => {
    const { workers, clock, publish, late, onLate } = openWorkers(3)
    const [owner, second, third] = workers as [Filters, Filters, Filters]
    const id = await createAt(owner, { kind: 'newHeads' }, idAt(2))
    await owner.close()
    t.same(textOf(await pollLater(clock, second, id, fetchFrom(3))), [hashAt(3)])
    publish({ removed: [], added: [{ ...idAt(4), json: '' }] })
    late.add(1)
    onLate.run = async () => {
      second.observe('newHeads', { removed: [idAt(4), idAt(3)], added: [] })
      await settle(clock, 1_000)
    }
    for (const head of [5, 6]) t.equal(await pollLater(clock, third, id, fetchFrom(head)), undefined, 'block 4 would be missing')
  })

  t.test('goes on when an answer did not arrive from a process that has written nothing since, and is dead', async t => {
    const { workers, clock, publish, late, stopped } = openWorkers(2)
    const [owner, other] = workers as [Filters, Filters]
    const id = await createAt(owner, { kind: 'newHeads' }, idAt(2))
    await settle(clock, 2_000)
    publish({ removed: [], added: [{ ...idAt(3), json: '' }] })
    stopped.add(0)
    late.add(0)
    t.same(textOf(await pollLater(clock, other, id, fetchFrom(4))), [hashAt(3), hashAt(4)])
  })

  t.test('waits for a store that does not answer', async t => {
    const { workers, clock, stopped } = openWorkers(2)
    const [owner, other] = workers as [Filters, Filters]
    const id = await createAt(owner, { kind: 'newHeads' }, idAt(1))
    await owner.close()
    stopped.add(1)
    t.match(await pollLater(clock, other, id, fetchFrom(2)), { error: { code: -32002 } })
    for (const method of ['eth_getFilterChanges', 'eth_getFilterLogs', 'eth_uninstallFilter']) {
      const call = fakeCall(method, [id], { account: { ...fakeAccount, id: 'alice' } })
      t.match(await filterMethods(other, 10)[method]?.(call, unreachableNext), { error: { code: -32002 } }, method)
    }
    stopped.clear()
    t.ok(await pollLater(clock, other, id, fetchFrom(2)))
  })

  t.test('is given up by a process that was stopped for long, if another has it', async t => {
    const { workers, clock, stopped, disconnect } = openWorkers(2)
    const [owner, other] = workers as [Filters, Filters]
    const ids = [await createAt(owner, logs, idAt(1)), await createAt(owner, logs, idAt(1))] as const
    await settle(clock, 1_000)
    stopped.add(0)
    disconnect(0)
    t.ok(await pollLater(clock, other, ids[0], fetchFrom(2)))
    t.equal(owner.of('logs').size, 2)
    stopped.clear()
    await settle(clock, 1_000)
    t.same(
      [...owner.of('logs')].map(({ id }) => id),
      [ids[1]],
    )
  })

  t.test('is written each second at most, whatever the polls', async t => {
    const { workers, clock, writtenFilters } = openWorkers(1)
    const [owner] = workers as [Filters]
    const id = await createAt(owner, logs, idAt(1))
    for (let i = 0; i < 1_000; i++) await request(owner, 'changes', id)
    t.equal(writtenFilters(), 0)
    await settle(clock, 3_000)
    t.equal(writtenFilters(), 1)
  })
})
