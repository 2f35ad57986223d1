import { setImmediate } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from '../../support/tap.ts'
import { BlockLogs } from '../../../plugins/subscriptions/block-logs.ts'
import { PublishedBlocks } from '../../../plugins/subscriptions/published-blocks.ts'
import { LogPublisher } from '../../../plugins/subscriptions/publishers.ts'
import { parseLogFilter } from '../../../plugins/subscriptions/log-filter.ts'
import type { LogFilter } from '../../../plugins/subscriptions/log-filter.ts'
import type { Json } from '../../../src/plugin/call.ts'
import type { FeedBlock, LinkedBlock } from '../../../src/plugin/internal.ts'
import { results } from '../../../src/services/results.ts'
import { seededRandom } from '../../support/model-chain.ts'

interface Log {
  readonly address: string
  readonly topics: readonly string[]
  readonly logIndex: number
}

const addressOf = (i: number): string => `0x${i.toString(16).padStart(40, '0')}`
const topicOf = (i: number): string => `0x${i.toString(16).padStart(64, '0')}`

const feedBlockOf = (logs: readonly object[], number = 7): FeedBlock => ({
  number,
  hash: topicOf(number),
  parentHash: topicOf(number - 1),
  json: JSON.stringify(logs),
})

const blockOf = (logs: readonly object[], number?: number): BlockLogs => new BlockLogs(feedBlockOf(logs, number), results)

const filterOf = (value: Json | undefined): LogFilter => {
  const filter = parseLogFilter(value, 'eth_subscribe')
  if ('error' in filter) throw new Error(filter.error.message)
  return filter
}

const matchesOf = (texts: readonly string[]): readonly number[] => texts.map(text => (JSON.parse(text) as Log).logIndex)

/** What geth's documentation says of a filter, log by log. */
const isExpected = (
  log: Log,
  { address, topics = [] }: { address?: string | string[]; topics?: (string | null | (string | null)[])[] },
): boolean => {
  if (address !== undefined && [address].flat().length > 0 && ![address].flat().includes(log.address)) return false
  if (topics.length > log.topics.length) return false
  return topics.every(
    (topic, i) => topic === null || [topic].flat().length === 0 || [topic].flat().some(each => each === null || each === log.topics[i]),
  )
}

t.test('a block finds the same logs as a look at each of them', async t => {
  const random = seededRandom(5)
  const randomLog = (logIndex: number): Log => ({
    address: addressOf(random(6)),
    topics: Array.from({ length: random(5) }, () => topicOf(random(5))),
    logIndex,
  })
  const randomTopic = () =>
    [null, topicOf(random(5)), Array.from({ length: random(4) }, () => (random(9) === 0 ? null : topicOf(random(8))))][random(3)] ?? null
  let matchCount = 0
  for (let round = 0; round < 400; round++) {
    const logs = Array.from({ length: random(30) }, (_, i) => randomLog(i))
    const addresses = [undefined, addressOf(random(7)), Array.from({ length: random(12) }, () => addressOf(random(9)))][random(3)]
    const filter = { ...(addresses !== undefined && { address: addresses }), topics: Array.from({ length: random(5) }, randomTopic) }
    const expected = logs.filter(log => isExpected(log, filter)).map(({ logIndex }) => logIndex)
    matchCount += expected.length
    t.same(matchesOf(blockOf(logs).match(filterOf(filter))), expected, JSON.stringify(filter))
  }
  t.ok(matchCount > 1_000)
})

t.test('a filter', async t => {
  const log = { address: addressOf(1).toUpperCase().replace('X', 'x'), topics: [topicOf(10).toUpperCase().replace('X', 'x')], logIndex: 0 }

  t.test('matches whatever the case in which the node writes hex', async t => {
    t.same(matchesOf(blockOf([log]).match(filterOf({ address: addressOf(1), topics: [topicOf(10)] }))), [0])
  })

  t.test('without members matches each log', async t => {
    for (const filter of [undefined, {}, { address: null, topics: null }]) t.same(matchesOf(blockOf([log]).match(filterOf(filter))), [0])
  })

  t.test('has bounds of blocks', async t => {
    const isMatch = (filter: Json) => blockOf([log], 7).match(filterOf(filter)).length > 0
    t.ok(isMatch({ fromBlock: '0x7', toBlock: '0x7' }))
    t.ok(isMatch({ fromBlock: 'earliest', toBlock: 'latest' }))
    t.notOk(isMatch({ fromBlock: '0x8', toBlock: 'latest' }))
    t.notOk(isMatch({ fromBlock: '0x0', toBlock: '0x6' }))
    t.notOk(isMatch({ fromBlock: '0x0', toBlock: 'earliest' }))
  })
})

t.test('logs that are taken back come the last first, with removed', async t => {
  const logs = [{ removed: false }, { removed: null }, {}].map((log, i) => ({ ...log, address: addressOf(1), topics: [], logIndex: i }))
  const texts = blockOf(logs).matchRemoved(filterOf({}))
  t.match(
    texts.map(text => JSON.parse(text) as object),
    [2, 1, 0].map(logIndex => ({ logIndex, removed: true, address: addressOf(1) })),
  )
})

t.test('the newest blocks are kept to be taken back', async t => {
  const published = new PublishedBlocks<FeedBlock>({ maxBlocks: 128, maxBytes: 32 << 20, bytesOf: ({ json }) => json.length })
  const blocks = Array.from({ length: 200 }, (_, i) => feedBlockOf([], i))
  for (const block of blocks) published.add(block)
  t.equal(published.remove(feedBlockOf([], 199)), blocks[199])
  t.equal(published.remove(feedBlockOf([], 20)), 'unknown', 'too old')
  t.equal(published.remove({ ...feedBlockOf([], 198), hash: topicOf(999) }), undefined, 'it was never published')
  const { json } = feedBlockOf([{ address: addressOf(1), topics: [], data: 'x'.repeat(8 << 20) }])
  for (let i = 0; i < 20; i++) published.add(feedBlockOf([], 201 + i))
  for (let i = 0; i < 8; i++) published.add({ ...feedBlockOf([], 300 + i), json })
  t.equal(published.remove(feedBlockOf([], 220)), 'unknown', 'more bytes than are kept')
  t.not(published.remove(feedBlockOf([], 307)), 'unknown', 'a few are kept whatever their size')
})

t.test('what leads from a block to the newest one is found among the blocks that were published', async t => {
  const published = new PublishedBlocks<LinkedBlock>({ maxBlocks: 4, maxBytes: 0, bytesOf: () => 0 })
  const at = (number: number, branch = 'a') => ({
    number,
    hash: `${branch}${number}`,
    parentHash: number === 3 ? 'a2' : `${branch}${number - 1}`,
  })
  const since = (number: number, branch?: string) => {
    const change = published.since(at(number, branch))
    return change && [change.base, change.removed, change.added].flat().map(({ hash }) => hash)
  }
  t.equal(since(2), undefined)
  published.startAt(at(2))
  t.same(since(2), ['a2'], 'nothing has been published since the start')
  for (const number of [3, 4, 5]) published.add(at(number))
  published.startAt(at(9))
  t.same(since(5), ['a5'])
  t.same(since(2), ['a2', 'a3', 'a4', 'a5'])
  t.equal(since(1), undefined, 'block 2 was not published')
  t.equal(since(6), undefined, 'it is not known yet')
  for (const number of [5, 4, 3]) published.remove(at(number))
  t.same(since(4), ['a2', 'a4', 'a3'])
  for (const number of [3, 4]) published.add(at(number, 'b'))
  t.same(since(5), ['a2', 'a5', 'a4', 'a3', 'b3', 'b4'])
  published.clear()
  t.equal(since(4, 'b'), undefined)
})

t.test(
  'kept logs take the memory that counts for their bound: that of their text, and for the newest 12 MiB that of their index',
  async t => {
    setFlagsFromString('--expose-gc')
    const collectGarbage = runInNewContext('gc') as () => void
    const memory = (): number => {
      collectGarbage()
      const { heapUsed, external } = process.memoryUsage()
      return heapUsed + external
    }
    const publisher = new LogPublisher({ subscriptions: new Set(), delivery: { deliver: () => {} }, results })
    let [id, chars, number] = [0, 0, 0]
    const smallLog = (_: unknown, logIndex: number): Log => ({
      address: addressOf(1),
      topics: [topicOf(1), topicOf(++id), topicOf(++id)],
      logIndex,
    })
    const publish = async (count: number): Promise<void> => {
      for (let i = 0; i < count; i++) {
        const block = feedBlockOf(Array.from({ length: 800 }, smallLog), ++number)
        chars += block.json.length
        publisher.publish({ removed: [], added: [block] })
        // An entry of a WeakMap stays until the end of the turn.
        await setImmediate()
      }
    }
    // Of so many blocks the index is kept.
    while (chars < 5 << 20) await publish(1)
    chars = 0
    const before = memory()
    await publish(32)
    const ratio = (memory() - before) / chars
    t.ok(ratio > 0.8 && ratio < 1.2, `${ratio.toFixed(2)} bytes for each character`)

    const blocks = Array.from({ length: 10 }, () => feedBlockOf(Array.from({ length: 800 }, smallLog), ++number))
    const beforeIndex = memory()
    const indexed = blocks.map(block => new BlockLogs(block, results))
    const indexedRatio = (memory() - beforeIndex) / indexed.reduce((sum, { bytes }) => sum + bytes, 0)
    t.ok(indexedRatio > 0.8 && indexedRatio < 1.2, `${indexedRatio.toFixed(2)} bytes for each byte that is counted`)
    t.equal(publisher.publish({ removed: [feedBlockOf([], number)], added: [] }), true)
  },
)
