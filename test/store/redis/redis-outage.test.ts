import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import { createServer as createTlsServer } from 'node:tls'
import { createClient } from '@redis/client'
import { isDeepStrictEqual } from 'node:util'
import t from '../../support/tap.ts'
import type { Test } from 'tap'
import { Secret } from '../../../src/plugin/secret.ts'
import { systemClock } from '../../../src/services/clock.ts'
import { openStore } from '../../../src/store/open-store.ts'
import { StoreEmptiedError } from '../../../src/store/store.ts'
import { RedisConnection } from '../../../src/store/redis/redis-connection.ts'
import { openLedger } from '../../../src/services/ledger/index.ts'
import { TestClock, TestLog } from '../../support/fakes.ts'
import { freePort } from '../../support/free-port.ts'
import { skipWithoutRedis, startRedisServer } from '../../support/redis-server.ts'
import { bounded } from '../../support/bounded.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { changeAccount } from '../change-account.ts'

const alice = { id: 'acc_1', name: 'alice', plan: 'core', created: 1 }

t.test('a redis that becomes unreachable', { skip: skipWithoutRedis }, async t => {
  // With everysec, a killed Redis may lose its last write on a busy disk.
  const redis = await startRedisServer('--appendonly', 'yes', '--appendfsync', 'always')
  t.teardown(() => redis.remove())
  const store = await openStore(redis.address, systemClock)
  t.teardown(() => store.close())
  await store.addAccount(alice)
  const isReachable = () =>
    Promise.resolve(store.account('alice')).then(
      () => true,
      () => false,
    )
  const untilReachable = async () => {
    const start = systemClock.monotonic()
    await waitUntil(isReachable)
    return systemClock.monotonic() - start
  }

  t.test('fails each request within milliseconds, with an error that names the address without the password', async t => {
    await redis.kill()
    await isReachable()
    const start = systemClock.monotonic()
    for (let i = 0; i < 100; i += 1) t.equal(await isReachable(), false)
    const each = (systemClock.monotonic() - start) / 100
    t.ok(each < 5, `${each.toFixed(2)} ms a call`)
    const message = new RegExp(`^cannot use redis at 127\\.0\\.0\\.1:${redis.port}: `)
    await t.rejects(store.heartbeat('p1'), { name: 'StoreError', message })
  })

  t.test('is used again within a second after its restart, with all data', async t => {
    await redis.restart()
    const took = await untilReachable()
    t.ok(took < 1_000, `${took} ms`)
    t.match(await store.account('alice'), alice)
  })

  t.test('that hangs is dropped after a second: then requests fail at once', async t => {
    redis.pause()
    const start = systemClock.monotonic()
    await t.rejects(store.heartbeat('p1'), { message: /: no answer for 1000 ms$/ })
    const timeoutMs = systemClock.monotonic() - start
    t.ok(timeoutMs > 900, `${timeoutMs} ms`)
    const second = systemClock.monotonic()
    t.equal(await isReachable(), false)
    t.ok(systemClock.monotonic() - second < 900, 'without another timeout')
    redis.resume()
    t.ok((await untilReachable()) < 1_000)
  })

  t.test('that hangs fails the first connection, in words', async t => {
    redis.pause()
    await t.rejects(openStore(redis.address, systemClock), { message: /: the connection is silent: Redis hangs, or cannot be reached$/ })
    redis.resume()
    await untilReachable()
  })

  t.test('cannot be opened while it is unreachable: the error is one line', async t => {
    await redis.kill()
    await t.rejects(openStore(redis.address, systemClock), {
      name: 'StoreError',
      message: `cannot use redis at 127.0.0.1:${redis.port}: connect ECONNREFUSED 127.0.0.1:${redis.port}; start it, or correct its address`,
    })
    await redis.restart()
    await untilReachable()
  })

  t.test('changes that were missed while disconnected are notified after the reconnect', async t => {
    let notifications = 0
    t.teardown(
      store.subscribe(() => {
        notifications += 1
      }),
    )
    await waitUntil(async () => String(await redis.send('PUBSUB', 'CHANNELS')).includes('tollgate:news'))
    await redis.kill()
    await redis.restart()
    await waitUntil(() => notifications > 0)
    const before = notifications
    const other = await openStore(redis.address, systemClock)
    await changeAccount(other, 'acc_1', { plan: 'growth' })
    await other.close()
    await waitUntil(() => notifications > before)
    t.equal(notifications, before + 1, 'and each later change is notified once')
  })
})

/** This process does not run for so long, as on a machine with too much work. Then its timers are due, and what has arrived meanwhile is read after them. */
const suspendProcess = async (ms: number): Promise<void> => {
  await setImmediate()
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
  await setImmediate()
}

t.test('time in which this process does not run is not taken for silence of a redis', { skip: skipWithoutRedis }, async t => {
  const redis = await startRedisServer()
  t.teardown(() => redis.remove())
  const store = await openStore(redis.address, systemClock)
  t.teardown(() => store.close())
  const log = new TestLog()
  const ledger = openLedger(store, systemClock, { log })
  t.teardown(() => ledger.stop())
  await ledger.start()
  const account = { id: 'acc_1', name: 'alice', plan: { name: 'core', dailyCredits: 1_000, forwarding: false } }
  const clientIds = async () =>
    Array.from(String(await redis.send('CLIENT', 'LIST')).matchAll(/^id=(\d+) .* name=tollgate /gm), ([, id]) => id)

  t.test('a call that has come meanwhile is charged, on the same connection', async t => {
    const before = await clientIds()
    t.ok(before.length > 0)
    await suspendProcess(2_500)
    t.match(await ledger.charge(account, 80), { kind: 'charged' })
    t.same(await clientIds(), before)
    t.same(log.lines, [])
  })

  t.test('a connection that is being made is made', async t => {
    const connection = new RedisConnection(redis.address, systemClock)
    const opening = connection.open()
    await suspendProcess(2_500)
    await t.resolves(opening)
    await connection.close()
  })
})

t.test('a connection without replies to pings is dropped, also where no command waits', { skip: skipWithoutRedis }, async t => {
  const redis = await startRedisServer()
  t.teardown(() => redis.remove())
  const causes: string[] = []
  const connection = new RedisConnection(redis.address, systemClock, { onError: cause => causes.push(cause) })
  t.teardown(() => connection.close())
  await connection.open()
  redis.pause()
  await waitUntil(() => !connection.isReady)
  t.equal(causes[0], 'the connection is silent: Redis hangs, or cannot be reached')
  redis.resume()
  await waitUntil(() => connection.isReady)
})

t.test('a redis that has lost all its data', { skip: skipWithoutRedis }, async t => {
  const redis = await startRedisServer()
  t.teardown(() => redis.remove())
  const [store, cli] = [await openStore(redis.address, systemClock), await openStore(redis.address, systemClock)]
  t.teardown(() => Promise.all([store.close(), cli.close()]))
  const key = { id: 'key_1', name: 'k', hint: 'abcd', account: alice.id, created: 1 }
  const lost = { name: 'StoreError', message: 'redis has lost its accounts and keys: restore them, or add them anew' }

  t.test('says of no key that it is unknown', async t => {
    t.equal(await store.findKey('hash'), undefined, 'before there are accounts, a key is unknown')
    t.equal(await store.changeCount(), 0)
    await store.addAccount(alice)
    await store.addKey('hash', key)
    t.match(await store.findKey('hash'), { key, account: alice })
    t.equal(await store.changeCount(), 2)
    t.equal(await store.findKey('other'), undefined)
    t.equal(await store.findKeyById('other'), undefined)
    await redis.kill()
    await redis.restart()
    const lookUps: readonly (() => Promise<unknown>)[] = [
      async () => store.findKey('hash'),
      async () => store.findKeyById('key_1'),
      async () => store.changeCount(),
    ]
    const outcomeOf = (lookUp: () => Promise<unknown>) => lookUp().catch((error: Error) => error.message)
    await waitUntil(async () => (await outcomeOf(async () => store.findKey('hash'))) === lost.message)
    for (const lookUp of lookUps) {
      await t.rejects(lookUp(), lost)
      t.ok((await lookUp().catch((error: unknown) => error)) instanceof StoreEmptiedError)
    }
  })

  t.test('is used again as soon as it has accounts and keys', async t => {
    await waitUntil(() =>
      cli.addAccount({ ...alice, name: 'bob' }).then(
        () => true,
        () => false,
      ),
    )
    t.equal(await store.findKey('hash'), undefined)
    await cli.addKey('new', key)
    t.match(await store.findKey('new'), { key, account: { name: 'bob' } })
    t.equal(await store.changeCount(), 2)
  })
})

t.test('an error of redis says what to change', { skip: skipWithoutRedis }, async t => {
  const redis = await startRedisServer()
  t.teardown(() => redis.remove())
  const store = await openStore(redis.address, systemClock)
  t.teardown(() => store.close())
  const untilError = async (pattern: RegExp) => {
    let message = ''
    await waitUntil(async () => {
      message = await store.heartbeat('p1').then(
        () => '',
        (error: Error) => error.message,
      )
      return pattern.test(message)
    })
    t.match(message, /^cannot use redis at 127\.0\.0\.1:\d+: [^;]+[^.]; [^;]+$/)
    t.notMatch(message, /script/)
  }
  const untilUsed = () =>
    waitUntil(() =>
      store.heartbeat('p1').then(
        () => true,
        () => false,
      ),
    )
  await redis.send('CONFIG', 'SET', 'maxmemory', '1')
  await untilError(/: OOM .*; raise its maxmemory/)
  await redis.send('CONFIG', 'SET', 'maxmemory', '0')
  await untilUsed()
  await redis.send('CONFIG', 'SET', 'min-replicas-to-write', '1')
  await untilError(/: NOREPLICAS .*; start its replicas, or lower its min-replicas-to-write$/)
  await redis.send('CONFIG', 'SET', 'min-replicas-to-write', '0')
  await untilUsed()
  await redis.send('REPLICAOF', '127.0.0.1', '1')
  await untilError(/: READONLY .*; name the primary in its address, or Sentinels with redis\+sentinel:\/\/$/)
  await redis.send('REPLICAOF', 'NO', 'ONE')
  await untilUsed()
  await redis.send('ACL', 'SETUSER', 'default', '-eval', '-evalsha')
  await untilError(/: NOPERM .*; give its user the right `\+eval(sha)?`, and the others/)
  await redis.send('ACL', 'SETUSER', 'default', '+@all')
  await untilUsed()
  const operator = await createClient({ url: redis.url, RESP: 2 }).connect()
  await operator.sendCommand(['CONFIG', 'SET', 'requirepass', 'secret'])
  await operator.sendCommand(['CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'])
  operator.destroy()
  await untilError(/: NOAUTH .*; correct the user and the password in its address$/)
})

t.test('a redis that cannot be the store is refused, with what to change', { skip: skipWithoutRedis }, async t => {
  const redis = await startRedisServer('--rename-command', 'EVALSHA', '')
  const cluster = await startRedisServer('--cluster-enabled', 'yes', '--cluster-port', `${await freePort()}`)
  const pem = readFileSync(new URL('../../../../test/support/certificates/self-signed.pem', import.meta.url))
  const servers = [createTlsServer({ cert: pem, key: pem }), createServer(socket => socket.destroy())]
  for (const server of servers) await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => Promise.all([redis.remove(), cluster.remove(), ...servers.map(server => server.close())]))
  const [tlsPort, closingPort] = servers.map(server => (server.address() as AddressInfo).port) // as that of every TCP server
  const http = createHttpServer().listen(0, '127.0.0.1')
  await once(http, 'listening')
  t.teardown(() => http.close())
  const { port: httpPort } = http.address() as AddressInfo // the same
  const cases: readonly (readonly [url: string, reason: RegExp])[] = [
    [redis.url, /ERR unknown command [`']EVALSHA[`']; begin its address with redis\+sentinel:\/\/ [^;]+; a Redis must not have [^;]+$/],
    [`${redis.url}/99`, /ERR DB index is out of range; name a database that it has, or raise its `databases`$/],
    [cluster.url, /CLUSTERDOWN [^;]+; start the nodes of its cluster: some keys have no primary$/],
    [`${cluster.url}/1`, /ERR SELECT is not allowed in cluster mode; a cluster has no databases: name none in its address$/],
    [`rediss://127.0.0.1:${tlsPort}`, /certificate; put the file of its certificate authority into NODE_EXTRA_CA_CERTS$/],
    [
      `rediss://127.0.0.1:${httpPort}`,
      /TLS: wrong version number; it does not use TLS on this port: write redis:\/\/ in place of rediss:\/\/$/,
    ],
    [
      `redis://127.0.0.1:${httpPort}`,
      /; check that a Redis listens there, and write rediss:\/\/ where it uses TLS, or redis:\/\/ where it does not$/,
    ],
    [`redis://127.0.0.1:${closingPort}`, /; check that a Redis listens there, [^;]+$/],
  ]
  for (const [url, reason] of cases) {
    const error = await openStore({ kind: 'redis', url: new Secret(url, 'HOST') }, systemClock).catch((error: unknown) => error)
    t.match(error, { name: 'StoreError', message: /^cannot use redis at HOST: [^\n]+$/ })
    t.match((error as Error).message, reason)
  }
})

/** Between the store and Redis: changes what Redis sends, and counts the connections. */
const startProxy = async (t: Test, redisPort: number, change: (bytes: Buffer) => Buffer) => {
  let connections = 0
  const proxy = createServer(client => {
    connections += 1
    const server = connect(redisPort, '127.0.0.1')
    const end = () => {
      client.destroy()
      server.destroy()
    }
    for (const socket of [client, server]) socket.on('close', end).on('error', end)
    client.pipe(server)
    server.on('data', bytes => client.write(change(bytes)))
  }).listen(0, '127.0.0.1')
  t.teardown(() => proxy.close())
  await once(proxy, 'listening')
  const { port } = proxy.address() as AddressInfo // a TCP server has no other kind of address
  const address = { kind: 'redis', url: new Secret(`redis://127.0.0.1:${port}`) } as const
  return { address, connectionCount: () => connections }
}

t.test(
  'a primary that became a replica is connected to anew, as its name may lead to the new primary',
  { skip: skipWithoutRedis },
  async t => {
    const redis = await startRedisServer()
    t.teardown(() => redis.remove())
    const asRedis6 = (text: string) =>
      text.replace(
        /^-(READONLY [^\r]*) script: (\w+), on @user_script:(\d+)\.\r\n/,
        '-ERR Error running script (call to f_$2): @user_script:$3: @user_script: $3: -$1  \r\n',
      )
    for (const change of [(text: string) => text, asRedis6]) {
      const { address, connectionCount } = await startProxy(t, redis.port, bytes => Buffer.from(change(bytes.toString('latin1')), 'latin1'))
      const store = await openStore(address, systemClock)
      t.teardown(() => store.close())
      await store.heartbeat('p1')
      t.equal(connectionCount(), 1)
      await redis.send('REPLICAOF', '127.0.0.1', '1')
      await t.rejects(store.heartbeat('p1'), {
        message: /: READONLY You can't write against a read only replica; name the primary in [^;]+$/,
      })
      await waitUntil(() => connectionCount() > 1)
      await redis.send('REPLICAOF', 'NO', 'ONE')
    }
  },
)

t.test('a connection on which replies have come apart from their commands is dropped', { skip: skipWithoutRedis }, async t => {
  const redis = await startRedisServer()
  t.teardown(() => redis.remove())
  let extraReply = ''
  const { address } = await startProxy(t, redis.port, bytes => {
    const prefix = Buffer.from(extraReply)
    extraReply = ''
    return Buffer.concat([prefix, bytes])
  })
  const store = await openStore(address, systemClock)
  t.teardown(() => store.close())
  await store.addAccount(alice)
  for (const i of [1, 2]) await store.addKey(`hash ${i}`, { id: `key_${i}`, account: 'acc_1', created: 1, hint: `${i}` })
  const { today } = await store.heartbeat('p1')
  const keyIds = () => ['hash 1', 'hash 2', 'hash 3'].map(async hash => (await store.findKey(hash))?.key.id)
  t.same(await Promise.all(keyIds()), ['key_1', 'key_2', undefined])

  const refusal = 'redis has sent a reply that belongs to another command'
  const answersAgain = () =>
    waitUntil(async () => {
      const [one, none] = await Promise.allSettled([store.account('acc_1'), store.account('nobody')])
      return isDeepStrictEqual(
        [one, none],
        [alice, undefined].map(value => ({ status: 'fulfilled', value })),
      )
    })
  // A ping may take the reply in place of the request: then once more.
  const untilRefused = (reply: string, request: () => readonly Promise<unknown>[]) =>
    waitUntil(async () => {
      extraReply = reply
      const settled = await Promise.allSettled(request())
      await answersAgain()
      return settled.every(each => each.status === 'rejected' && (each.reason as Error).message === refusal)
    })
  await untilRefused(':7\r\n', () => [store.heartbeat('p1')])
  // The second look-up would get the reply to the first.
  await untilRefused(':7\r\n', keyIds)
  await untilRefused('$6\r\nhash 2\r\n', () => [(async () => store.findKeyById('key_1'))()])
  let seq = 0
  const lease = (account: string) => {
    seq += 1
    const credits = { minCredits: 0, desiredCredits: 5, limit: 900, shareDivisor: 1, counters: undefined }
    return store.requestLease({ account, day: today, process: 'p1', seq, ...credits })
  }
  await untilRefused(':7\r\n', () => [lease('acc_1'), lease('acc_2')])
  const session = (id: string) => ({ id, account: 'acc_1', value: null, expires: systemClock.now() + 3_600_000 })
  for (const id of ['s1', 's2', 's3']) await store.putRecord('session', session(id))
  await untilRefused(`*1\r\n$${JSON.stringify(session('s3')).length}\r\n${JSON.stringify(session('s3'))}\r\n`, () =>
    ['s1', 's2'].map(async id => store.findRecord('session', id)),
  )
  const report = { process: 'p1', seq: 9, counts: [], retentionHours: 1 }
  for (const reply of ['$1\r\n5\r\n', '*1\r\n$-1\r\n']) await untilRefused(reply, () => [store.reportUsage(report)])
  t.match(await store.heartbeat('p1'), { liveProcesses: 1 })
})

t.test('a connection closes at once when redis disconnects while it owes replies', async t => {
  const ways: Readonly<Record<string, (socket: Socket) => unknown>> = {
    'with FIN': socket => socket.end(),
    'with RST': socket => socket.resetAndDestroy(),
  }
  for (const [way, end] of Object.entries(ways)) {
    const sockets: Socket[] = []
    const server = createServer(socket => {
      sockets.push(socket)
      // Answers the commands of the handshake only.
      socket.once('data', bytes => void socket.write('+OK\r\n'.repeat(String(bytes).match(/^\*/gm)?.length ?? 0)))
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo // a TCP server has no other kind of address
    // The clock does not advance: close() must not wait for a timer.
    const connection = new RedisConnection({ url: new Secret(`redis://127.0.0.1:${port}`) }, new TestClock())
    await connection.open()
    const reply = connection.send(['PING']).then(
      () => 'answered',
      ({ name }: Error) => name,
    )
    const closed = connection.close().then(() => 'closed')
    sockets.forEach(end)
    t.equal(await bounded(`close() after ${way}`, closed), 'closed', way)
    t.equal(await reply, 'StoreError')
    server.close()
  }
})
