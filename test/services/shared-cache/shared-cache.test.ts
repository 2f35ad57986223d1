import { once } from 'node:events'
import net from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import t from 'tap'
import { toBuffer } from '../../../src/json/chunked-bytes.ts'
import { Secret } from '../../../src/plugin/secret.ts'
import { openSharedCaches } from '../../../src/services/shared-cache/index.ts'
import type { SharedCacheEntry } from '../../../src/services/shared-cache/index.ts'
import { createCacheBreaker } from '../../../src/services/shared-cache/cache-breaker.ts'
import { systemClock } from '../../../src/services/clock.ts'
import { createMetricsRegistry } from '../../../src/services/metrics.ts'
import { TestClock, TestLog } from '../../support/fakes.ts'
import { skipWithoutRedis, startRedisServer } from '../../support/redis-server.ts'

const hash = `0x${'ab'.repeat(32)}`
const createEntry = (result: unknown, over: Partial<SharedCacheEntry> = {}): SharedCacheEntry => ({
  result: Buffer.from(JSON.stringify(result)),
  finalizedBlock: { number: 16, hash },
  ...over,
})
const acceptAll = () => true

/** Stands before a Redis, and hands on what it says so many ms later. */
const startProxy = async (port: number) => {
  const sockets = new Set<Socket>()
  let delay = 0
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
      upstream.on('data', bytes => void setTimeout(() => client.write(bytes), delay))
    })
    .listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    delay(ms: number) {
      delay = ms
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
  const place = new URL(url).host
  const cache = caches.open(new Secret(url, place))
  const value = (name: string, outcome?: string) =>
    metrics
      .families()
      .find(family => family.name === name)
      ?.series.find(({ labels }) => outcome === undefined || labels['outcome'] === outcome)?.values[0] ?? 0
  const count = (outcome: string) => value('tollgate_shared_cache_lookups_total', outcome)
  const waitUntil = async (isSo: () => boolean | Promise<boolean>) => {
    while (!(await isSo())) await new Promise(resolve => setTimeout(resolve, 5))
  }
  const waitUntilUsed = (wanted: boolean) => waitUntil(() => (value('tollgate_shared_cache_up') === 1) === wanted)
  /** Once what was kept has arrived. */
  const waitUntilFound = async (
    name: string,
    isWanted: (entry: SharedCacheEntry | undefined) => boolean = found => found !== undefined,
  ) => {
    let last: SharedCacheEntry | undefined
    await waitUntil(async () => isWanted((last = await cache.get(name, 1 << 20, acceptAll))))
    return last
  }
  /** What is found where nothing is late: on a busy machine 5 ms pass in no time. */
  const getInTime = async (name: string, maxBytes = 1 << 20): Promise<SharedCacheEntry | undefined> => {
    for (;;) {
      const before = count('hit') + count('miss') + count('failed')
      const found = await cache.get(name, maxBytes, acceptAll)
      if (count('hit') + count('miss') + count('failed') > before) return found
      await waitUntilUsed(true)
    }
  }
  return { caches, cache, log, count, used: waitUntilUsed, found: waitUntilFound, look: getInTime, until: waitUntil }
}

t.test('a cache in redis', { skip: skipWithoutRedis }, async t => {
  const redis = await startRedisServer()
  t.teardown(() => redis.remove())

  t.test('gives what was kept, byte for byte, to whoever shares the redis, while its time lasts', async t => {
    const [one, other] = [openCache(redis.url), openCache(redis.url)]
    t.teardown(() => Promise.all([one.caches.close(), other.caches.close()]))
    t.equal(one.caches.open(new Secret(redis.url)), one.cache, 'one redis is one cache')
    await Promise.all([one.used(true), other.used(true)])
    const odd = Buffer.from('[ {"a":"\\u0000é\\ud83d\\ude00"},\n{}] ')
    one.cache.set('odd', { ...createEntry(0), result: odd }, 60_000)
    const found = await other.found('odd')
    t.same(found && toBuffer(found.result), odd.subarray(0, -1), 'white space after it is none of it')
    t.match(found, { count: 2, finalizedBlock: { number: 16, hash } })
    const left = Number(await redis.send('PTTL', 'tollgate:cache:1:odd'))
    t.ok(left > 50_000 && left <= 60_000)
    one.cache.set('brief', createEntry(1), 1)
    await other.found('brief', found => found === undefined)
    t.equal(await other.cache.get('odd', 1 << 20, () => false), undefined, 'what is not accepted is not found')
    const late = other.count('late')
    t.equal(await other.cache.get('odd', 1 << 20, () => new Promise(() => undefined)), undefined, 'nor what is accepted too late')
    t.equal(other.count('late'), late + 1)
  })

  t.test('takes nothing for an entry that is none', async t => {
    const { caches, cache, used, found, look, count } = openCache(redis.url)
    t.teardown(() => caches.close())
    await used(true)
    cache.set('good', createEntry({ a: '0x1' }), 60_000)
    await found('good')
    const good = String(await redis.send('GET', 'tollgate:cache:1:good'))
    const before = count('hit')
    const put = async (text: string) => {
      await redis.send('SET', 'tollgate:cache:1:good', text)
      return look('good', 64)
    }
    for (const bad of [
      '',
      ' ',
      '\n',
      'x',
      good.slice(0, -1),
      `${good} `.slice(1),
      `${good}}`,
      good.replace('0x1', '0x"1'),
      good.replace('1 good', '2 good'),
      good.replace('good', 'evil'),
      good.replace(hash, '0x'),
      good.replace(hash, 'x'),
      good.replace('16', '-1'),
      good.replace('16', '1e3'),
      good.replace('"result"', '"error"'),
      good.replace('"id":1', '"id":2'),
      good.replace('}}', '},"_streamStatus":"truncated"}'),
      good.replace('0x1', '0'.repeat(100_000)),
      '\u0000'.repeat(1000),
    ])
      t.equal(await put(bad), undefined, JSON.stringify(bad.slice(0, 150)))
    await redis.send('DEL', 'tollgate:cache:1:good')
    await redis.send('LPUSH', 'tollgate:cache:1:good', 'x')
    t.equal(await look('good', 64), undefined, 'a list')
    await redis.send('DEL', 'tollgate:cache:1:good')
    t.equal(count('hit'), before)
    t.ok(await put(good), 'it is the checks that find them out')
  })

  t.test('costs 5 ms where redis is slow, and after a few tries nothing, until it is fast again', async t => {
    const proxy = await startProxy(redis.port)
    const { caches, cache, used, count, log, found } = openCache(proxy.url)
    t.teardown(() => Promise.all([caches.close(), proxy.stop()]))
    await used(true)
    proxy.delay(200)
    const times: number[] = []
    for (let i = 0; i < 50; i++) {
      const begun = performance.now()
      t.equal(await cache.get('slow', 1 << 20, acceptAll), undefined)
      times.push(performance.now() - begun)
    }
    t.equal(count('late'), 5)
    t.equal(count('skipped'), 45)
    t.ok(times.toSorted((a, b) => a - b)[40]! < 5, 'a look-up that is skipped waits for nothing')
    t.match(log.lines.at(-1), { level: 'warn', fields: { redis: new URL(proxy.url).host, cause: 'no answer within 5 ms' } })
    proxy.delay(0)
    await used(true)
    cache.set('fast', createEntry(1), 60_000)
    t.ok(await found('fast'))
  })

  t.test('whose redis hangs or dies is left alone, and used again when it is back', async t => {
    const { caches, cache, used, until, found, log } = openCache(redis.url)
    t.teardown(() => caches.close())
    await used(true)
    redis.pause()
    const many = await Promise.all(Array.from({ length: 1000 }, (_, i) => cache.get(`${i}`, 1 << 20, acceptAll)))
    t.ok(many.every(each => each === undefined))
    await used(false)
    redis.resume()
    await used(true)
    await redis.kill()
    await until(async () => (await cache.get('x', 1 << 20, acceptAll), log.lines.at(-1)?.level === 'warn'))
    for (let i = 0; i < 100; i++) cache.set(`${i}`, createEntry(i), 60_000)
    await redis.restart()
    await used(true)
    cache.set('back', createEntry(1), 60_000)
    t.ok(await found('back'))
  })

  t.test('that was never there is said once, with the reason and without the password', async t => {
    const strict = await startRedisServer('--requirepass', 'right')
    const { caches, log, until, cache } = openCache(`redis://:canary@127.0.0.1:${strict.port}`)
    t.teardown(() => Promise.all([caches.close(), strict.remove()]))
    await until(() => log.lines.length > 0)
    t.match(log.lines, [{ level: 'warn', fields: { cause: /WRONGPASS/ } }])
    t.notMatch(JSON.stringify(log.lines), /canary/)
    t.equal(await cache.get('x', 1 << 20, acceptAll), undefined)
  })

  t.test('tells the operator when its redis makes no room', async t => {
    const roomy = await startRedisServer('--maxmemory', '64mb', '--maxmemory-policy', 'allkeys-lru')
    const [full, good] = [openCache(redis.url), openCache(roomy.url)]
    t.teardown(() => Promise.all([full.caches.close(), good.caches.close(), roomy.remove()]))
    await full.until(() => full.log.lines.some(({ message }) => message.includes('maxmemory-policy')))
    await good.used(true)
    await good.found('x', found => found === undefined)
    t.notOk(good.log.lines.some(({ message }) => message.includes('maxmemory-policy')))
  })
})

t.test('a redis that is not there is no reason to wait, not even for the end', async t => {
  const { caches, cache } = openCache('redis://127.0.0.1:1')
  t.equal(await cache.get('x', 1, acceptAll), undefined)
  cache.set('x', createEntry(1), 1000)
  await caches.close()
})

t.test('health', async t => {
  const world = () => {
    const clock = new TestClock()
    const said: string[] = []
    let fault: string | undefined
    let tests = 0
    const health = createCacheBreaker({
      clock,
      healthCheck: async () => ((tests += 1), fault),
      onStateChange: (isGood, cause) => said.push(isGood ? 'good' : cause),
    })
    const turn = async (ms: number) => {
      clock.advance(ms)
      await new Promise(setImmediate)
    }
    return {
      health,
      said,
      turn,
      tests: () => tests,
      fail: (cause?: string) => {
        fault = cause
      },
    }
  }

  t.test('ends after five failures in a row, or more than one in five on and on, and begins with a test', async t => {
    const { health, said, turn } = world()
    t.notOk(health.isClosed)
    await turn(1000)
    t.ok(health.isClosed)
    for (let i = 0; i < 4; i++) health.recordFailure('x')
    t.ok(health.isClosed)
    for (let i = 0; i < 100; i++) health.recordSuccess()
    for (let i = 0; i < 1000; i++) i % 6 === 0 ? health.recordFailure('rare') : health.recordSuccess()
    t.ok(health.isClosed)
    for (let i = 0; i < 1000; i++) i % 3 === 0 ? health.recordFailure('often') : health.recordSuccess()
    t.notOk(health.isClosed)
    t.same(said, ['good', 'often'])
  })

  t.test('is tried after 0.25 s, 0.5 s, 1 s, at most 16 s, and at once when there is reason', async t => {
    const { health, said, turn, tests, fail } = world()
    fail('away')
    for (const [i, ms] of [250, 500, 1000, 2000, 4000, 8000, 16_000, 16_000].entries()) {
      await turn(ms - 1)
      t.equal(tests(), i)
      await turn(1)
      t.equal(tests(), i + 1)
    }
    t.same(said, ['away'], 'said once')
    fail()
    await health.probe()
    t.ok(health.isClosed)
    health.stop()
    t.notOk(health.isClosed)
    await turn(100_000)
    t.equal(tests(), 9)
  })
})
