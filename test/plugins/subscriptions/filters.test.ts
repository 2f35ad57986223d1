import { composeEventRules } from '../../../src/services/event-rules.ts'
import t from '../../support/tap.ts'
import { BlockLogs } from '../../../plugins/subscriptions/block-logs.ts'
import { filterMethods } from '../../../plugins/subscriptions/filter-methods.ts'
import { Filters } from '../../../plugins/subscriptions/filters.ts'
import type { FilterTopic } from '../../../plugins/subscriptions/filters.ts'
import { parseLogFilter } from '../../../plugins/subscriptions/log-filter.ts'
import type { Fetch } from '../../../plugins/subscriptions/missed-changes.ts'
import { PublishedBlocks } from '../../../plugins/subscriptions/published-blocks.ts'
import { RecentEvents } from '../../../plugins/subscriptions/recent-events.ts'
import { RetainedFeed } from '../../../plugins/subscriptions/retained-feed.ts'
import { FilterValues } from '../../../plugins/subscriptions/used-filters.ts'
import { toBuffer } from '../../../src/json/chunked-bytes.ts'
import type { Json } from '../../../src/plugin/call.ts'
import { isFailure } from '../../../src/plugin/reply.ts'
import type { Result } from '../../../src/plugin/reply.ts'
import type { FeedBlock, FilterRecords, LinkedBlock } from '../../../src/services/index.ts'
import { createMetricsRegistry } from '../../../src/services/metrics.ts'
import { results } from '../../../src/services/results.ts'
import { StoreError } from '../../../src/store/store.ts'
import { openInMemoryFilterRecords } from '../../../src/testing/in-memory-store.ts'
import { TestClock, TestLog, fakeAccount, fakeCall, fakeResult, unreachableNext } from '../../support/fakes.ts'

interface ModelUpdate {
  readonly removed?: readonly LinkedBlock[]
  readonly added?: readonly LinkedBlock[]
  /** Of each block that is added. */
  readonly logCount?: number
}

/** Processes that share a store. */
const openProcesses = (count: number) => {
  const clock = new TestClock()
  const records = openInMemoryFilterRecords(clock)
  /** Processes that do not reach the store. */
  const stopped = new Set<number>()
  /** What each use of the store throws, by process. */
  const bugs = new Map<number, Error>()
  const log = new TestLog()
  /** Before what a process writes of a poll. */
  const beforeReplace = { run: async (): Promise<void> => undefined }
  const counts = { retained: 0, written: 0 }
  let isFeedRunning = true
  const processes = Array.from({ length: count }, (_, i) => {
    const living = async (): Promise<FilterRecords> => {
      const bug = bugs.get(i)
      if (bug !== undefined) throw bug
      if (stopped.has(i)) throw new StoreError('unreachable')
      return records
    }
    const filterRecords: FilterRecords = {
      put: async record => (await living()).put(record),
      find: async id => (await living()).find(id),
      take: async id => (await living()).take(id),
      replace: async (found, record) => {
        await beforeReplace.run()
        counts.written += 1
        return (await living()).replace(found, record)
      },
    }
    const feed = {
      retain: async () => {
        counts.retained += 1
        return isFeedRunning
      },
      release: () => void (counts.retained -= 1),
    }
    const bounds = { maxBlocks: 2_048, maxBytes: 32 << 20 }
    const published = {
      newHeads: new PublishedBlocks<LinkedBlock>({ ...bounds, bytesOf: () => 0 }),
      logs: new PublishedBlocks<FeedBlock>({ ...bounds, bytesOf: ({ json }) => json.length }),
      newPendingTransactions: new RecentEvents(),
      fullPendingTransactions: new RecentEvents(),
    }
    const feeds = {
      newHeads: new RetainedFeed(clock, feed),
      logs: new RetainedFeed(clock, feed),
      newPendingTransactions: new RetainedFeed(clock, feed),
      fullPendingTransactions: new RetainedFeed(clock, feed),
    }
    const filters = new Filters({
      clock,
      log,
      filterRecords,
      published,
      feeds,
      logsOf: block => new BlockLogs(block, results),
      network: { name: 'devnet', chainId: 1, blockTime: 1_000, devNode: false },
      filterValues: new FilterValues(),
      metrics: createMetricsRegistry(),
      events: composeEventRules([]),
    })
    const publish = ({ removed = [], added = [], logCount = 1 }: ModelUpdate): void => {
      for (const blocks of [published.newHeads, published.logs]) for (const block of removed) blocks.remove(block)
      for (const block of added) {
        published.newHeads.add(block)
        const logs = Array.from({ length: logCount }, (_, log) => ({
          address: '0x1',
          topics: [],
          log: `${log + 1}`,
          blockHash: block.hash,
        }))
        published.logs.add({ ...block, json: JSON.stringify(logs) })
      }
    }
    return { filters, published, publish }
  })
  const stopFeeds = (): void => {
    isFeedRunning = false
  }
  return { clock, log, processes, counts, stopped, bugs, stopFeeds, beforeReplace }
}

type Process = ReturnType<typeof openProcesses>['processes'][number]

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

/** The process must not ask the upstreams. */
const fetchNothing: Fetch = async (method, params) => {
  throw new Error(`${method} ${JSON.stringify(params)}`)
}

const logs: FilterTopic = (() => {
  const filter = parseLogFilter({}, 'eth_newFilter')
  if ('error' in filter) throw new Error(filter.error.message)
  return { kind: 'logs', filter, request: {} }
})()
const blocks: FilterTopic = { kind: 'newHeads' }
const pending: FilterTopic = { kind: 'newPendingTransactions' }

/** A filter that begins with this block. */
const create = async ({ filters }: Process, topic: FilterTopic, head = 1, account = 'alice'): Promise<string> => {
  const id = await filters.create(topic, account, 10, fetchFrom(head))
  if (typeof id !== 'string') throw new Error(id.error.message)
  return id
}

interface PollOptions {
  readonly fetch?: Fetch
  readonly account?: string
  readonly isDelivered?: boolean
}

/** Of an answer, the changes: hashes, or logs as `<log> <branch><number>`, with `-` before those that are removed. Else the answer itself. */
const poll = async (
  { filters }: Process,
  id: string,
  { fetch = fetchNothing, account = 'alice', isDelivered = true }: PollOptions = {},
) => {
  const answer = await filters.changes({ id, account }, fetch)
  if (answer === undefined || 'error' in answer) return answer
  answer.onSettled(isDelivered)
  await new Promise(setImmediate)
  const changes = JSON.parse(answer.text) as (string | { log: string; blockHash: string; removed?: boolean })[]
  return changes.map(change => {
    if (typeof change === 'string') return change
    const { removed, log, blockHash } = change
    return `${removed === true ? '-' : ''}${log} ${blockHash.slice(2, 3)}${Number(`0x${blockHash.slice(-4)}`)}`
  })
}

t.test('a filter', async t => {
  t.test('is polled and uninstalled through any process, by its account alone', async t => {
    const { processes } = openProcesses(2)
    const [first, second] = processes as [Process, Process]
    const id = await create(first, blocks)
    for (const { publish } of processes) publish({ added: [idAt(2), idAt(3)] })
    t.equal(await poll(second, id, { account: 'bob' }), undefined)
    t.same(await poll(second, id), [hashAt(2), hashAt(3)])
    t.same(await poll(first, id), [])
    for (const { publish } of processes) publish({ added: [idAt(4)] })
    t.same(await poll(first, id), [hashAt(4)])
    const request = { id, account: 'alice' }
    t.equal(await second.filters.criteria(request), undefined, 'it is not about logs')
    t.equal(await second.filters.uninstall({ id, account: 'bob' }), false)
    t.equal(await second.filters.uninstall(request), true)
    t.equal(await first.filters.uninstall(request), false)
    t.equal(await poll(first, id), undefined)
  })

  t.test('of logs keeps its criteria', async t => {
    const { processes } = openProcesses(2)
    const [first, second] = processes as [Process, Process]
    const request = { address: '0x1', fromBlock: 'latest' }
    const filter = parseLogFilter(request, 'eth_newFilter')
    if ('error' in filter) throw new Error(filter.error.message)
    const id = await create(first, { kind: 'logs', filter, request })
    for (const { filters } of [first, second]) t.same(await filters.criteria({ id, account: 'alice' }), { criteria: request })
    t.equal(await second.filters.criteria({ id, account: 'bob' }), undefined)
  })

  t.test('of logs counts by its addresses and topics until it is removed', async t => {
    const { processes } = openProcesses(1)
    const [first] = processes as [Process]
    const createLarge = (account: string) => {
      const filter = parseLogFilter({ address: Array.from({ length: 40_000 }, (_, i) => `0x${i}`) }, 'eth_newFilter')
      if ('error' in filter) throw new Error(filter.error.message)
      return first.filters.create({ kind: 'logs', filter, request: {} }, account, 10, fetchFrom(1))
    }
    const [id] = [await createLarge('alice'), await createLarge('alice')]
    t.match(await createLarge('alice'), { error: { code: -32005, message: /at most 100000 addresses, topics and hashes/ } })
    t.type(await createLarge('bob'), 'string')
    await first.filters.uninstall({ id: String(id), account: 'alice' })
    t.type(await createLarge('alice'), 'string')
  })

  t.test('ends when it is not used for 5 minutes, and its feed with the last one', async t => {
    const { processes, clock, counts } = openProcesses(1)
    const [first] = processes as [Process]
    const [used, unused] = [await create(first, blocks), await create(first, blocks)]
    const pendingId = await create(first, pending)
    t.equal(counts.retained, 2)
    clock.advance(299_000)
    for (const id of [used, pendingId]) t.same(await poll(first, id), [])
    clock.advance(299_000)
    t.same(await poll(first, used), [])
    t.equal(await poll(first, unused), undefined)
    clock.advance(10_000)
    t.equal(await poll(first, pendingId), undefined)
    t.equal(counts.retained, 1)
    clock.advance(300_000)
    t.equal(counts.retained, 0)
  })

  t.test('whose id was not delivered is removed at once, in the store and from what counts for the limits', async t => {
    const { processes } = openProcesses(2)
    const [first, second] = processes as [Process, Process]
    const methods = filterMethods(first.filters, { maxPerAccount: 1, events: composeEventRules([]) })
    const create = async () => {
      const fetchHead = fetchFrom(1)
      const reply = await methods['eth_newFilter']?.(fakeCall('eth_newFilter', [{}]), async ({ context: { request } }) => {
        return fakeResult((await fetchHead(request.method, request.params)) ?? null)
      })
      if (reply === undefined || isFailure(reply)) throw new Error('no filter')
      return { reply, id: JSON.parse(toBuffer(reply.result).toString()) as string }
    }
    const settle = async ({ reply, id }: { reply: Result; id: string }, isDelivered: boolean) => {
      reply.onSettled?.(isDelivered)
      await new Promise(setImmediate)
      return second.filters.uninstall({ id, account: fakeAccount.id })
    }
    t.equal(await settle(await create(), false), false)
    t.equal(await settle(await create(), true), true)
  })

  t.test('is not created above the limit of the account, nor when the upstreams do not say where it begins', async t => {
    const { processes, stopFeeds, stopped } = openProcesses(1)
    const [{ filters }] = processes as [Process]
    const createOf = (account: string, fetch = fetchFrom(1), topic = blocks) => filters.create(topic, account, 2, fetch)
    t.type(await createOf('alice'), 'string')
    const concurrent = await Promise.all([createOf('alice'), createOf('alice')])
    t.equal(concurrent.filter(result => typeof result === 'string').length, 1)
    t.match(await createOf('alice'), { error: { code: -32005, message: 'too many filters: at most 2 of one account' } })
    t.match(await createOf('bob', async () => undefined), { error: { code: -32002 } })
    stopped.add(0)
    t.match(await createOf('bob'), { error: { code: -32002 } })
    stopped.clear()
    for (let i = 0; i < 2; i++) t.type(await createOf('bob'), 'string', 'those that were not created do not count')
    const { processes: others, stopFeeds: stopOthers } = openProcesses(1)
    stopOthers()
    t.match(await others[0]?.filters.create(pending, 'alice', 2, fetchNothing), { error: { code: -32002 } })
    stopFeeds()
  })

  t.test('brings again what was not delivered, with what has come since', async t => {
    const { processes } = openProcesses(1)
    const [first] = processes as [Process]
    const [id, pendingId] = [await create(first, blocks), await create(first, pending)]
    first.publish({ added: [idAt(2)] })
    first.published.newPendingTransactions.add(['"0x1"'])
    t.same(await poll(first, id, { isDelivered: false }), [hashAt(2)])
    t.same(await poll(first, pendingId, { isDelivered: false }), ['0x1'])
    first.publish({ added: [idAt(3)] })
    first.published.newPendingTransactions.add(['"0x2"'])
    for (const isDelivered of [false, true]) {
      t.same(await poll(first, id, { isDelivered }), [hashAt(2), hashAt(3)])
      t.same(await poll(first, pendingId, { isDelivered }), ['0x1', '0x2'])
    }
    t.same([await poll(first, id), await poll(first, pendingId)], [[], []])
  })

  t.test('is polled twice before the first answer is delivered: the second goes on from the first, and counts with it alone', async t => {
    const blocksOf = ({ publish }: Process) => ({ topic: blocks, publish: (n: number) => publish({ added: [idAt(n)] }), changeOf: hashAt })
    const pendingOf = ({ published }: Process) => ({
      topic: pending,
      publish: (n: number) => published.newPendingTransactions.add([`"0x${n}"`]),
      changeOf: (n: number) => `0x${n}`,
    })
    for (const describe of [blocksOf, pendingOf]) {
      for (const isDelivered of [true, false]) {
        const { processes } = openProcesses(1)
        const [first] = processes as [Process]
        const { topic, publish, changeOf } = describe(first)
        const id = await create(first, topic)
        const take = async () => {
          const answer = await first.filters.changes({ id, account: 'alice' }, fetchNothing)
          if (answer === undefined || 'error' in answer) throw new Error('no changes')
          return answer
        }
        publish(2)
        const [one, two] = await Promise.all([take(), take()])
        publish(3)
        const three = await take()
        t.same(
          [one, two, three].map(({ text }) => JSON.parse(text) as unknown),
          [[changeOf(2)], [], [changeOf(3)]],
        )
        for (const { onSettled } of [three, two]) onSettled(true)
        one.onSettled(isDelivered)
        await new Promise(setImmediate)
        t.same(await poll(first, id), isDelivered ? [] : [changeOf(2), changeOf(3)])
      }
    }
  })

  t.test('that two processes poll at once may bring changes twice, and loses none', async t => {
    const { processes, beforeReplace } = openProcesses(2)
    const [first, second] = processes as [Process, Process]
    const id = await create(first, blocks)
    first.publish({ added: [idAt(2)] })
    second.publish({ added: [idAt(2), idAt(3)] })
    let isFirst = true
    beforeReplace.run = async () => {
      if (!isFirst) return
      isFirst = false
      t.same(await poll(second, id), [hashAt(2), hashAt(3)])
    }
    t.same(await poll(first, id), [hashAt(2)])
    for (const { publish } of processes) publish({ added: [idAt(4)] })
    await new Promise(setImmediate)
    t.same(await poll(second, id), [hashAt(4)], 'the position of the first does not replace the later one')
  })

  t.test('brings no changes twice to a caller who polls another process as soon as the answer is there', async t => {
    const { processes, beforeReplace, clock } = openProcesses(2)
    const [first, second] = processes as [Process, Process]
    const id = await create(first, blocks)
    for (const { publish } of processes) publish({ added: [idAt(2)] })
    let release = (): void => undefined
    const answer = await first.filters.changes({ id, account: 'alice' }, fetchNothing)
    beforeReplace.run = () => new Promise(resolve => (release = resolve))
    if (answer === undefined || 'error' in answer) throw new Error('no answer')
    t.equal(answer.text, JSON.stringify([hashAt(2)]))
    answer.onSettled(true)
    const next = poll(second, id)
    await new Promise(setImmediate)
    release()
    beforeReplace.run = async () => undefined
    await new Promise(setImmediate)
    await clock.advance(20)
    t.same(await next, [], 'the second waits until the first has stored that its answer was delivered')
  })

  t.test('brings the changes again when the process that delivered them has ended before it knew', async t => {
    const { processes, clock } = openProcesses(2)
    const [first, second] = processes as [Process, Process]
    const id = await create(first, blocks)
    for (const { publish } of processes) publish({ added: [idAt(2)] })
    await first.filters.changes({ id, account: 'alice' }, fetchNothing)
    const again = poll(second, id)
    for (let i = 0; i < 120; i++) {
      await new Promise(setImmediate)
      await clock.advance(10)
    }
    t.same(await again, [hashAt(2)])
    t.same(await poll(second, id), [])
  })

  t.test('brings the changes of an answer that was not delivered also after its criteria were read', async t => {
    const { processes, clock } = openProcesses(2)
    const [first, second] = processes as [Process, Process]
    const id = await create(first, logs)
    for (const { publish } of processes) publish({ added: [idAt(2)] })
    await first.filters.changes({ id, account: 'alice' }, fetchNothing)
    clock.advance(31_000)
    t.match(await second.filters.criteria({ id, account: 'alice' }), { criteria: {} })
    const again = poll(second, id)
    for (let i = 0; i < 20; i++) {
      await new Promise(setImmediate)
      clock.advance(100)
    }
    t.same(await again, ['1 a2'])
  })

  t.test('brings nothing twice to a poll behind one that failed while an answer was on its way', async t => {
    const { processes } = openProcesses(1)
    const [first] = processes as [Process]
    const id = await create(first, blocks)
    first.publish({ added: [idAt(2)] })
    const answer = await first.filters.changes({ id, account: 'alice' }, fetchNothing)
    first.published.newHeads.clear()
    await t.rejects(first.filters.changes({ id, account: 'alice' }, fetchNothing), { message: /^eth_/ })
    t.same(await poll(first, id, { fetch: fetchFrom(2) }), [])
    if (answer === undefined || 'error' in answer) throw new Error('no answer')
    answer.onSettled(true)
    await new Promise(setImmediate)
    first.publish({ added: [idAt(3)] })
    t.same(await poll(first, id), [hashAt(3)])
  })

  t.test('without news is written each 30 s at most', async t => {
    const { processes, clock, counts } = openProcesses(1)
    const [first] = processes as [Process]
    const id = await create(first, blocks)
    for (let i = 0; i < 61; i++) {
      t.same(await poll(first, id), [])
      clock.advance(1_000)
    }
    t.equal(counts.written, 1)
    first.publish({ added: [idAt(2)] })
    t.same(await poll(first, id), [hashAt(2)])
    t.equal(counts.written, 3, 'that the answer is sent, and that it was delivered')
  })

  t.test('of logs takes back those that a reorg removes, the newest first, and none from before it', async t => {
    const { processes } = openProcesses(1)
    const [first] = processes as [Process]
    first.publish({ added: [idAt(2), idAt(3)], logCount: 2 })
    const id = await create(first, logs, 3)
    first.publish({ added: [idAt(4)], logCount: 2 })
    t.same(await poll(first, id), ['1 a4', '2 a4'])
    first.publish({ removed: [idAt(4), idAt(3)], added: [idAt(3, 'b')] })
    t.same(await poll(first, id), ['-2 a4', '-1 a4', '1 b3'])
    first.publish({ removed: [idAt(3, 'b')], added: [idAt(3)] })
    t.same(await poll(first, id), ['-1 b3', '1 a3'], 'what was delivered of block 3 is taken back')
  })

  t.test('of blocks brings those of the new branch after a reorg', async t => {
    const { processes } = openProcesses(1)
    const [first] = processes as [Process]
    const id = await create(first, blocks, 2)
    first.publish({ added: [idAt(3), idAt(4)] })
    t.same(await poll(first, id), [hashAt(3), hashAt(4)])
    first.publish({ removed: [idAt(4), idAt(3)] })
    t.same(await poll(first, id), [])
    first.publish({ added: [3, 4].map(number => idAt(number, 'b')) })
    t.same(await poll(first, id), [hashAt(3, 'b'), hashAt(4, 'b')])
  })

  t.test('that begins at a block which a reorg removes goes on without the upstreams, of which none may know that block', async t => {
    for (const [topic, change] of [
      [blocks, hashAt(4, 'b')],
      [logs, '1 b4'],
    ] as const) {
      const { processes } = openProcesses(1)
      const [first] = processes as [Process]
      const id = await create(first, topic, 4)
      first.publish({ removed: [idAt(4), idAt(3)] })
      t.same(await poll(first, id), [])
      first.publish({ added: [3, 4].map(number => idAt(number, 'b')) })
      t.same((await poll(first, id)) as unknown[], [topic === blocks ? hashAt(3, 'b') : '1 b3', change], topic.kind)
    }
    const { processes } = openProcesses(2)
    const [first, second] = processes as [Process, Process]
    const id = await create(first, logs, 2)
    first.publish({ added: [idAt(3)] })
    t.same(await poll(first, id), ['1 a3'])
    t.same(await poll(second, id, { fetch: fetchFrom(3) }), [])
    second.publish({ removed: [idAt(3)], added: [idAt(3, 'b')] })
    t.same(
      await poll(second, id, { fetch: fetchFrom(3, 'b') }),
      ['-2 a3', '-1 a3', '1 b3'],
      'the logs of block 3 were delivered: they are fetched',
    )
  })

  t.test('brings more than 10,000 changes with several polls', async t => {
    const { processes } = openProcesses(1)
    const [first] = processes as [Process]
    const id = await create(first, logs)
    first.publish({ added: [2, 3, 4].map(number => idAt(number)), logCount: 6_000 })
    const counts: number[] = []
    for (let i = 0; i < 3; i++) counts.push(((await poll(first, id)) as readonly string[]).length)
    t.same(counts, [12_000, 6_000, 0])
  })

  t.test('of pending transactions brings the newest 10,000, and ends with its process', async t => {
    const { processes } = openProcesses(2)
    const [first, second] = processes as [Process, Process]
    const events = first.published.newPendingTransactions
    events.add(['"0xbefore"'])
    const id = await create(first, pending)
    t.same(await poll(first, id), [])
    events.add(Array.from({ length: 10_001 }, (_, i) => `"0x${i}"`))
    const changes = (await poll(first, id)) as readonly string[]
    t.same([changes.length, changes[0]], [10_000, '0x1'])
    t.equal(await poll(second, id), undefined)
    t.equal(await second.filters.uninstall({ id, account: 'alice' }), false)
    t.equal(await poll(first, id, { account: 'bob' }), undefined)
    t.equal(await first.filters.uninstall({ id, account: 'alice' }), true)
    t.equal(await poll(first, id), undefined)
  })

  t.test('waits for a store that does not answer, and brings again what could not be written', async t => {
    const { processes, stopped } = openProcesses(1)
    const [first] = processes as [Process]
    const id = await create(first, blocks)
    first.publish({ added: [idAt(2)] })
    stopped.add(0)
    t.match(await poll(first, id), { error: { code: -32002 } })
    for (const method of ['eth_getFilterChanges', 'eth_getFilterLogs', 'eth_uninstallFilter']) {
      const call = fakeCall(method, [id], { account: { ...fakeAccount, id: 'alice' } })
      t.match(
        await filterMethods(first.filters, { maxPerAccount: 10, events: composeEventRules([]) })[method]?.(call, unreachableNext),
        { error: { code: -32002 } },
        method,
      )
    }
    stopped.clear()
    const answer = await first.filters.changes({ id, account: 'alice' }, fetchNothing)
    stopped.add(0)
    if (answer !== undefined && 'text' in answer) answer.onSettled(true)
    await new Promise(setImmediate)
    stopped.clear()
    t.same(await poll(first, id), [hashAt(2)])
    t.same(await poll(first, id), [])
  })

  t.test('does not take a bug for a store that does not answer: it is thrown, or logged where no call waits any more', async t => {
    const { processes, bugs, log } = openProcesses(1)
    const [first] = processes as [Process]
    const request = { id: await create(first, logs), account: 'alice' }
    first.publish({ added: [idAt(2)] })
    const answer = await first.filters.changes(request, fetchNothing)
    const bug = new TypeError('a bug')
    bugs.set(0, bug)
    if (answer !== undefined && 'text' in answer) answer.onSettled(true)
    await new Promise(setImmediate)
    first.filters.discard(request)
    await new Promise(setImmediate)
    const logged = { level: 'error', fields: { err: bug }, message: 'filter could not be stored because of a bug' }
    t.match(log.lines, [logged, logged])
    await t.rejects(first.filters.create(blocks, 'alice', 2, fetchFrom(1)), bug)
    await t.rejects(first.filters.changes(request, fetchNothing), bug)
    await t.rejects(first.filters.criteria(request), bug)
    await t.rejects(first.filters.uninstall(request), bug)
    bugs.clear()
    t.type(await first.filters.create(blocks, 'alice', 2, fetchFrom(1)), 'string', 'the one that was not created does not count')
    t.equal(log.lines.length, 2, 'what is thrown is logged where it is caught')
    await first.filters.close()
  })

  t.test('is stored when its process has closed, which answers nothing more', async t => {
    const { processes, beforeReplace, counts } = openProcesses(2)
    const [first, second] = processes as [Process, Process]
    const id = await create(first, blocks)
    for (const { publish } of processes) publish({ added: [idAt(2)] })
    let release = (): void => undefined
    beforeReplace.run = async () => (counts.written === 0 ? undefined : new Promise(resolve => (release = resolve)))
    t.same(await poll(first, id), [hashAt(2)])
    let isClosed = false
    const closed = first.filters.close().then(() => (isClosed = true))
    await new Promise(setImmediate)
    t.equal(isClosed, false)
    t.match(await poll(first, id), { error: { code: -32002 } })
    t.match(await first.filters.create(blocks, 'alice', 10, fetchFrom(1)), { error: { code: -32002 } })
    release()
    await closed
    t.equal(counts.written, 2)
    t.same(await poll(second, id), [])
  })
})

t.test('a filter whose position a process has not published', async t => {
  const openMoved = async (topic: FilterTopic, head: number) => {
    const { processes } = openProcesses(2)
    const [first, second] = processes as [Process, Process]
    return { first, second, id: await create(first, topic, head) }
  }

  t.test('goes on there from the last block that was delivered', async t => {
    const { first, second, id } = await openMoved(blocks, 1)
    first.publish({ added: [idAt(2)] })
    t.same(await poll(first, id), [hashAt(2)])
    t.equal(await poll(second, id, { fetch: fetchFrom(4), account: 'bob' }), undefined, 'it is that of another account')
    t.same(await poll(second, id, { fetch: fetchFrom(4), isDelivered: false }), [hashAt(3), hashAt(4)])
    t.same(await poll(second, id, { fetch: fetchFrom(4) }), [hashAt(3), hashAt(4)])
    t.same(await poll(second, id), [], 'the upstreams are not asked once more')
    second.publish({ added: [idAt(4), idAt(5)] })
    t.same(await poll(second, id), [hashAt(5)], 'what the feed brings once more is not repeated')
  })

  t.test('takes back logs of blocks that are no longer on the chain', async t => {
    const { first, second, id } = await openMoved(logs, 2)
    first.publish({ added: [idAt(3)], logCount: 2 })
    t.same(await poll(first, id), ['1 a3', '2 a3'])
    t.same(await poll(second, id, { fetch: fetchFrom(4, 'b') }), ['-2 a3', '-1 a3', '1 b3', '1 b4'])
  })

  t.test('waits until the upstreams answer', async t => {
    const { second, id } = await openMoved(logs, 1)
    t.match(await poll(second, id, { fetch: async () => undefined }), { error: { code: -32002 } })
    t.same(await poll(second, id, { fetch: fetchFrom(2) }), ['1 a2'])
  })

  t.test('goes on along one branch, though the upstreams are on several', async t => {
    for (const topic of [logs, blocks]) {
      const { second, id } = await openMoved(topic, 2)
      const fetch: Fetch = async (method, params) => {
        const { fromBlock } = Object(params[0]) as { fromBlock?: Json }
        return fetchFrom(4, fromBlock !== undefined || params[0] === '0x3' ? 'a' : 'b')(method, params)
      }
      const wanted = topic === logs ? ['1 b3', '1 b4'] : [hashAt(3, 'b'), hashAt(4, 'b')]
      t.same(await poll(second, id, { fetch }), wanted, topic.kind)
    }
  })

  t.test('is answered anew when a reorg comes while its changes are fetched', async t => {
    const { second, id } = await openMoved(blocks, 2)
    let branch = 'a'
    const fetch: Fetch = (method, params) => {
      if (params[0] === '0x4') branch = 'b'
      return fetchFrom(4, branch)(method, params)
    }
    t.same(await poll(second, id, { fetch }), [hashAt(3, 'b'), hashAt(4, 'b')])
  })

  t.test('does not go back, when the upstream that has the head is behind one that has the last block', async t => {
    const { second, id } = await openMoved(blocks, 4)
    const fetch: Fetch = (method, params) => fetchFrom(params[0] === 'latest' ? 3 : 4)(method, params)
    t.same(await poll(second, id, { fetch }), [])
    second.publish({ added: [idAt(3)] })
    t.same(await poll(second, id, { fetch }), [], 'nor when the feed of the process is behind')
    t.same(await poll(second, id, { fetch: fetchFrom(5) }), [hashAt(5)])
  })

  t.test('stays when the upstreams that are left do not have the newest blocks that have come', async t => {
    const lacking: readonly (readonly [FilterTopic, (method: string, params: readonly Json[]) => boolean])[] = [
      [blocks, (_method, [block]) => block === '0x5'],
      [blocks, (_method, [block]) => block === '0x4'],
      [logs, (_method, [block]) => block === '0x5'],
      [logs, method => method === 'eth_getLogs'],
    ]
    for (const [topic, isLacking] of lacking) {
      const { second, id } = await openMoved(topic, 4)
      const fetch: Fetch = async (method, params) => (isLacking(method, params) ? null : fetchFrom(5)(method, params))
      t.match(await poll(second, id, { fetch }), { error: { code: -32002 } })
      t.match(await poll(second, id, { fetch: fetchFrom(5) }), { length: 1 })
    }
  })

  t.test('of more missed blocks than those in which upstreams differ is answered whole', async t => {
    for (const topic of [logs, blocks]) {
      const { second, id } = await openMoved(topic, 2)
      const wanted = Array.from({ length: 97 }, (_, i) => (topic === logs ? `1 a${i + 3}` : hashAt(3 + i)))
      t.same(await poll(second, id, { fetch: fetchFrom(99) }), wanted, topic.kind)
    }
  })

  t.test('is not found when more blocks have come than are fetched, or when nobody knows a block that was removed', async t => {
    for (const [topic, fetch] of [
      [blocks, fetchFrom(2 + 513)],
      [logs, fetchFrom(2 + 10_001)],
    ] as const) {
      const { second, id } = await openMoved(topic, 2)
      t.equal(await poll(second, id, { fetch }), undefined, topic.kind)
    }
    const { second, id } = await openMoved(logs, 4)
    t.equal(await poll(second, id, { fetch: fetchFrom(5, 'b') }), undefined)
  })
})
