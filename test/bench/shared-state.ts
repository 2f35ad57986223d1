import { systemClock } from '../../src/services/clock.ts'
import { openRedisHeightBroadcasts } from '../../src/store/redis/redis-height-broadcast.ts'
import { RedisRateLimits } from '../../src/store/redis/redis-rate-limits.ts'
import { openRedisStore } from '../../src/store/redis/redis-store.ts'
import type { LoggedRequest } from '../../src/store/request-log-store.ts'
import { hourMs } from '../../src/util/dates.ts'
import { TestLog } from '../support/fakes.ts'
import { skipWithoutRedis, startRedisServer } from '../support/redis-server.ts'
import type { RedisServer } from '../support/redis-server.ts'
import type { CaseResult } from './cases.ts'
import { createFigure, spreadOf } from './figures.ts'
import type { Figure } from './figures.ts'
import type { ReportSkipped } from './measure.ts'
import type { BenchServers } from './servers.ts'
import { accountId, forEach, readRedisUse, useSince } from './store-traffic.ts'

const rounds = 3
const count = 20_000

/** What gateways of one Redis share beside accounts and usage: buckets of rate limits, heights, and the entries of request logs. */
export const sharedState = async (_servers: BenchServers, reportSkipped: ReportSkipped): Promise<CaseResult> => {
  if (skipWithoutRedis !== false) {
    reportSkipped(`skipped: ${skipWithoutRedis}`)
    return { rows: [], figures: [] }
  }
  const redis = await startRedisServer('--appendonly', 'yes')
  try {
    const figures = [
      ...(await measureEach(redis, 'request for tokens of a rate limit', count, () => takeTokens(redis))),
      ...(await measureEach(redis, 'height of a network, with two gateways', heightCount, () => raiseHeights(redis, 2))),
      ...(await measureEach(redis, 'height of a network, with ten gateways', heightCount, () => raiseHeights(redis, 10))),
      ...(await measureEach(redis, 'entry of a request log', count, () => writeEntries(redis))),
    ]
    return { rows: [], figures }
  } finally {
    await redis.remove()
  }
}

/** The first run is not counted: Redis gets the texts of the scripts. */
const measureEach = async (redis: RedisServer, title: string, size: number, run: () => Promise<void>): Promise<readonly Figure[]> => {
  const uses: ReturnType<typeof useSince>[] = []
  for (let i = 0; i <= rounds; i += 1) {
    await redis.send('FLUSHALL')
    const before = await readRedisUse(redis)
    await run()
    if (i > 0) uses.push(useSince(before, await readRedisUse(redis)))
  }
  const each = (of: (use: ReturnType<typeof useSince>) => number) => spreadOf(uses.map(use => of(use) / size))
  return [
    createFigure(
      `CPU of Redis: ${title}`,
      'µs',
      each(use => use.cpuUs),
    ),
    createFigure(
      `network: ${title}`,
      'KB',
      each(use => use.bytes / 1_024),
    ),
    createFigure(
      `memory of Redis: ${title}`,
      'KB',
      each(use => use.memoryBytes / 1_024),
    ),
  ]
}

/** A bucket of its own for each, whose burst is so small that no tokens are left for the next call. */
const takeTokens = async (redis: RedisServer): Promise<void> => {
  const limits = new RedisRateLimits(redis.address, systemClock, new TestLog(), 10_000)
  await forEach(count, async i => limits.take([{ bucket: `calls key key_${i}`, rate: { perSecond: 0.01, burst: 4 }, tokens: 1 }]))
  await limits.close()
}

const heightCount = 2_000

/** One gateway sees each block first, and all others are told of its height before the next. */
const raiseHeights = async (redis: RedisServer, gateways: number): Promise<void> => {
  const opened = Array.from({ length: gateways }, () => openRedisHeightBroadcasts(redis.address, systemClock))
  const [first, ...others] = opened.flatMap(({ heightBroadcastsOf }) => heightBroadcastsOf('ethereum-mainnet', 1))
  const heights = new Map(others.map(broadcast => [broadcast, 0]))
  let resolveTold: () => void = () => undefined
  let height = 0
  for (const broadcast of others) {
    broadcast.subscribe(told => {
      heights.set(broadcast, told)
      if ([...heights.values()].every(each => each >= height)) resolveTold()
    })
  }
  first?.subscribe(() => undefined)
  while (height < heightCount) {
    height += 1
    const told = new Promise<void>(resolve => {
      resolveTold = resolve
    })
    first?.raise(height)
    await told
  }
  for (const { close } of opened) await close()
}

const [batchSize, accountsOfBatch] = [100, 20]

/** Batches of calls of some accounts, as a process writes them once a second. */
const writeEntries = async (redis: RedisServer): Promise<void> => {
  const store = await openRedisStore(redis.address, systemClock)
  const entry: LoggedRequest = {
    ...{
      time: systemClock.now(),
      requestId: '0123456789abcdef',
      transport: 'http',
      key: 'key_0123456789abcdef',
      network: 'ethereum-mainnet',
    },
    ...{ method: 'eth_getBalance', params: `["0x${'ab'.repeat(20)}","latest"]`, outcome: 'ok', credits: 80, durationMs: 12.5 },
    ...{ cache: 'miss', attempts: 1, upstream: 'node-a' },
  }
  const requests = Array.from({ length: batchSize / accountsOfBatch }, () => entry)
  await forEach(count / batchSize, async i => {
    const accounts = Array.from({ length: accountsOfBatch }, (_, j) => ({
      account: accountId((i * accountsOfBatch + j) % 1_000),
      requests,
    }))
    await store.addRequests({ id: `batch-${i}`, accounts }, { retentionMs: 24 * hourMs, maxBytes: 1e9 })
  })
  await store.close()
}
