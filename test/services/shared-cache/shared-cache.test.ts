import { once } from 'node:events'
import net from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import t from '../../support/tap.ts'
import { toBuffer } from '../../../src/json/chunked-bytes.ts'
import { Secret } from '../../../src/plugin/secret.ts'
import { openSharedCaches } from '../../../src/services/shared-cache/index.ts'
import { RedisCache } from '../../../src/services/shared-cache/redis-cache.ts'
import type { SharedCacheEntry } from '../../../src/services/shared-cache/index.ts'
import { systemClock } from '../../../src/services/clock.ts'
import { createMetricsRegistry } from '../../../src/services/metrics.ts'
import { TestClock, TestLog } from '../../support/fakes.ts'
import { skipWithoutRedis, startRedisServer } from '../../support/redis-server.ts'
import { waitUntil } from '../../support/wait-until.ts'

const hash = `0x${'ab'.repeat(32)}`
const createEntry = (result: unknown, over: Partial<SharedCacheEntry> = {}): SharedCacheEntry => ({
  result: Buffer.from(JSON.stringify(result)),
  verified: 'proof',
  finalizedBlock: { number: 16, hash },
  ...over,
})
const acceptAll = () => true

/** A TCP proxy before Redis that delays its replies. */
const startProxy = async (port: number) => {
  const sockets = new Set<Socket>()
  let delayMs = 0
  const server = net
    .createServer(client => {
      const upstream = net.connect(port, '127.0.0.1')
      for (const [one, other] of [
        [client, upstream],
        [upstream, client],
      ] as const) {
        sockets.add(one)
        one.on('error', () => undefined).on('close', () => other.destroy())
      }
      client.pipe(upstream)
      upstream.on('data', bytes => void setTimeout(() => client.write(bytes), delayMs))
    })
    .listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    delayReplies(ms: number) {
      delayMs = ms
    },
    async stop() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

const openCache = (url: string) => {
  const log = new TestLog()
  const metrics = createMetricsRegistry()
  const caches = openSharedCaches({ clock: systemClock, log, metrics })
  const address = new URL(url).host
  const cache = caches.open(new Secret(url, address))
  const value = (name: string, outcome?: string) =>
    metrics
      .families()
      .find(family => family.name === name)
      ?.series.find(({ labels }) => outcome === undefined || labels['outcome'] === outcome)?.values[0] ?? 0
  const count = (outcome: string) => value('tollgate_shared_cache_lookups_total', outcome)
  const waitUntilUsed = (wanted: boolean) => waitUntil(() => (value('tollgate_shared_cache_up') === 1) === wanted)
  /** Writes the entry until it is found: it is written in the background, or dropped while the cache is skipped, as on a busy machine. */
  const waitUntilStored = (name: string, entry: SharedCacheEntry, writer = cache) =>
    waitUntil(async () => {
      writer.set(name, entry, 60_000)
      return (await cache.get(name, 1 << 20, acceptAll)) !== undefined
    })
  /** A look-up that is not late: on a busy machine each may take longer than 5 ms. */
  const getInTime = async (name: string, maxBytes = 1 << 20): Promise<SharedCacheEntry | undefined> => {
    for (;;) {
      const before = count('hit') + count('miss') + count('failed')
      const found = await cache.get(name, maxBytes, acceptAll)
      if (count('hit') + count('miss') + count('failed') > before) return found
      await waitUntilUsed(true)
    }
  }
  return { caches, cache, log, count, waitUntil, waitUntilUsed, waitUntilStored, getInTime }
}

t.test('a cache in redis', { skip: skipWithoutRedis }, async t => {
  const redis = await startRedisServer()
  t.teardown(() => redis.remove())

  t.test('returns entries byte for byte to every process that shares the redis, until they expire', async t => {
    const [one, other] = [openCache(redis.url), openCache(redis.url)]
    t.teardown(() => Promise.all([one.caches.close(), other.caches.close()]))
    t.equal(one.caches.open(new Secret(redis.url)), one.cache, 'one redis is one cache')
    await Promise.all([one.waitUntilUsed(true), other.waitUntilUsed(true)])
    const result = Buffer.from('[ {"a":"\\u0000é\\ud83d\\ude00"},\n{}] ')
    await other.waitUntilStored('entry', { ...createEntry(0), result }, one.cache)
    const found = await other.getInTime('entry')
    t.same(found && toBuffer(found.result), result.subarray(0, -1), 'without the white space after it')
    t.match(found, { count: 2, verified: 'proof', finalizedBlock: { number: 16, hash } })
    const left = Number(await redis.send('PTTL', 'tollgate:cache:1:entry'))
    t.ok(left > 50_000 && left <= 60_000)
    one.cache.set('brief', createEntry(1), 1)
    while ((await other.getInTime('brief')) !== undefined);
    t.equal(await other.cache.get('entry', 1 << 20, () => false), undefined, 'an entry that is not accepted is not found')
    await other.waitUntilUsed(true)
    const late = other.count('late')
    t.equal(
      await other.cache.get('entry', 1 << 20, () => new Promise(() => undefined)),
      undefined,
      'nor an entry that is accepted too late',
    )
    t.equal(other.count('late'), late + 1)
  })

  t.test('rejects bytes that are no valid entry', async t => {
    const { caches, waitUntilUsed, waitUntilStored, getInTime, count } = openCache(redis.url)
    t.teardown(() => caches.close())
    await waitUntilUsed(true)
    await waitUntilStored('name', createEntry({ a: '0x1' }))
    const valid = String(await redis.send('GET', 'tollgate:cache:1:name'))
    const before = count('hit')
    const put = async (text: string) => {
      await redis.send('SET', 'tollgate:cache:1:name', text)
      return getInTime('name', 64)
    }
    for (const text of [
      '',
      ' ',
      '\n',
      'x',
      valid.slice(0, -1),
      `${valid} `.slice(1),
      `${valid}}`,
      valid.replace('0x1', '0x"1'),
      valid.replace('1 name', '2 name'),
      valid.replace('name', 'other'),
      valid.replace(hash, '0x'),
      valid.replace(hash, 'x'),
      valid.replace('16', '-1'),
      valid.replace('16', '1e3'),
      valid.replace('"result"', '"error"'),
      valid.replace('"id":1', '"id":2'),
      valid.replace('}}', '},"_streamStatus":"truncated"}'),
      valid.replace('0x1', '0'.repeat(100_000)),
      '\u0000'.repeat(1000),
    ])
      t.equal(await put(text), undefined, JSON.stringify(text.slice(0, 150)))
    await redis.send('DEL', 'tollgate:cache:1:name')
    await redis.send('LPUSH', 'tollgate:cache:1:name', 'x')
    t.equal(await getInTime('name', 64), undefined, 'a list')
    await redis.send('DEL', 'tollgate:cache:1:name')
    t.equal(count('hit'), before)
    t.ok(await put(valid), 'the valid entry is found')
  })

  t.test('costs 5 ms while redis is slow, and after five look-ups nothing, until redis is fast again', async t => {
    const proxy = await startProxy(redis.port)
    const { caches, cache, waitUntilUsed, count, log, waitUntilStored } = openCache(proxy.url)
    t.teardown(() => Promise.all([caches.close(), proxy.stop()]))
    await waitUntilUsed(true)
    proxy.delayReplies(200)
    const times: number[] = []
    for (let i = 0; i < 50; i++) {
      const begun = performance.now()
      t.equal(await cache.get('slow', 1 << 20, acceptAll), undefined)
      times.push(performance.now() - begun)
    }
    t.equal(count('late'), 5)
    t.equal(count('skipped'), 45)
    t.ok(times.toSorted((a, b) => a - b)[40]! < 5, 'a skipped look-up waits for nothing')
    t.match(log.lines.at(-1), { level: 'warn', fields: { redis: new URL(proxy.url).host, cause: 'no answer within 5 ms' } })
    proxy.delayReplies(0)
    await waitUntilUsed(true)
    await waitUntilStored('fast', createEntry(1))
  })

  t.test('is skipped while redis is unresponsive or down, and used again afterwards', async t => {
    const { caches, cache, waitUntilUsed, waitUntil, waitUntilStored, log } = openCache(redis.url)
    t.teardown(() => caches.close())
    await waitUntilUsed(true)
    redis.pause()
    const many = await Promise.all(Array.from({ length: 1000 }, (_, i) => cache.get(`${i}`, 1 << 20, acceptAll)))
    t.ok(many.every(each => each === undefined))
    await waitUntilUsed(false)
    redis.resume()
    await waitUntilUsed(true)
    await redis.kill()
    await waitUntil(async () => (await cache.get('x', 1 << 20, acceptAll), log.lines.at(-1)?.level === 'warn'))
    for (let i = 0; i < 100; i++) cache.set(`${i}`, createEntry(i), 60_000)
    await redis.restart()
    await waitUntilUsed(true)
    await waitUntilStored('back', createEntry(1))
  })

  t.test('logs an unreachable redis once, with the reason and without the password', async t => {
    const locked = await startRedisServer('--requirepass', 'right')
    const { caches, log, waitUntil, cache } = openCache(`redis://:canary@127.0.0.1:${locked.port}`)
    t.teardown(() => Promise.all([caches.close(), locked.remove()]))
    await waitUntil(() => log.lines.length > 0)
    t.match(log.lines, [{ level: 'warn', fields: { cause: /WRONGPASS/ } }])
    t.notMatch(JSON.stringify(log.lines), /canary/)
    t.equal(await cache.get('x', 1 << 20, acceptAll), undefined)
  })

  t.test('warns of a redis that evicts nothing', async t => {
    const evicting = await startRedisServer('--maxmemory', '64mb', '--maxmemory-policy', 'allkeys-lru')
    const [refusing, accepting] = [openCache(redis.url), openCache(evicting.url)]
    t.teardown(() => Promise.all([refusing.caches.close(), accepting.caches.close(), evicting.remove()]))
    await refusing.waitUntil(() => refusing.log.lines.some(({ message }) => message.includes('maxmemory-policy')))
    await accepting.waitUntilUsed(true)
    t.equal(await accepting.getInTime('x'), undefined)
    t.notOk(accepting.log.lines.some(({ message }) => message.includes('maxmemory-policy')))
  })
})

t.test('an unreachable redis delays nothing, not even close()', async t => {
  const { caches, cache } = openCache('redis://127.0.0.1:1')
  t.equal(await cache.get('x', 1, acceptAll), undefined)
  cache.set('x', createEntry(1), 1000)
  await caches.close()
})

t.test('the circuit breaker of a cache', async t => {
  const createCache = (policy = 'allkeys-lru') => {
    const [clock, log] = [new TestClock(), new TestLog()]
    const calls = { ping: 0, get: 0 }
    let error: Error | undefined
    const settle = async <T>(value: T): Promise<T> => {
      if (error !== undefined) throw error
      return value
    }
    const redis = {
      sendCommand: (command: string) => settle(command === 'PING' ? ((calls.ping += 1), 'PONG') : `maxmemory_policy:${policy}`),
      sendBinaryCommand: () => settle(((calls.get += 1), Buffer.alloc(0))),
    }
    const cache = new RedisCache({ redis, address: 'redis:6379', clock, log, metrics: createMetricsRegistry() })
    t.teardown(() => cache.stop())
    return {
      cache,
      calls,
      log,
      async advance(ms: number) {
        clock.advance(ms)
        await new Promise(setImmediate)
      },
      /** So many look-ups, of which each `every`th fails. */
      async lookUp(count: number, every = Infinity) {
        for (let i = 1; i <= count; i++) {
          error = i % every === 0 ? new Error('x') : undefined
          await cache.get('entry', 100, acceptAll)
        }
        error = undefined
      },
      fail(cause?: string) {
        error = cause === undefined ? undefined : new Error(cause)
      },
    }
  }

  t.test('begins open, and opens after five failures in a row or more than a fifth of at least 50 look-ups', async t => {
    const { cache, calls, lookUp, advance, log } = createCache()
    await lookUp(1)
    t.equal(calls.get, 0)
    await cache.onConnected()
    await lookUp(4, 1)
    await lookUp(1)
    await lookUp(5, 1)
    await lookUp(1)
    t.equal(calls.get, 10)
    await cache.onConnected()
    await advance(10_000) // the failures from before leave the window
    await lookUp(600, 6)
    t.equal(calls.get, 610)
    await lookUp(600, 2)
    t.ok(calls.get < 1000, `${calls.get} look-ups`)
    t.same(
      log.lines.map(({ level, fields }) => [level, fields]),
      [
        ['info', { redis: 'redis:6379' }],
        ['warn', { redis: 'redis:6379', cause: 'x' }],
        ['info', { redis: 'redis:6379' }],
        ['warn', { redis: 'redis:6379', cause: 'x' }],
      ],
    )
  })

  t.test('probes after 0.25 s, 0.5 s, 1 s, at most 16 s', async t => {
    const { calls, advance, fail, log } = createCache()
    fail('down')
    for (const [i, ms] of [250, 500, 1000, 2000, 4000, 8000, 16_000, 16_000].entries()) {
      await advance(ms - 1)
      t.equal(calls.ping, i)
      await advance(1)
      t.equal(calls.ping, i + 1)
    }
    t.match(log.lines, [{ level: 'warn', fields: { cause: 'down' } }], 'logged once')
    t.equal(log.lines.length, 1)
  })
  t.test('warns once per connection of a redis that evicts nothing, also when the first probe is late', async t => {
    const { cache, advance, fail, log } = createCache('noeviction')
    const countWarnings = () => log.lines.filter(({ message }) => message.includes('maxmemory-policy')).length
    fail('late')
    await cache.onConnected()
    t.equal(countWarnings(), 0)
    fail(undefined)
    await advance(500)
    t.equal(countWarnings(), 1)
    await advance(16_000)
    t.equal(countWarnings(), 1)
    await cache.onConnected()
    t.equal(countWarnings(), 2)
  })
})
