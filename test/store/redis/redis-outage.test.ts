import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import t from 'tap'
import { Secret } from '../../../src/plugin/secret.ts'
import { systemClock } from '../../../src/services/clock.ts'
import { openStore } from '../../../src/store/open-store.ts'
import { RedisConnection } from '../../../src/store/redis/redis-connection.ts'
import { TestClock } from '../../support/fakes.ts'
import { skipWithoutRedis, startRedisServer } from '../../support/redis-server.ts'

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
    while (!(await isReachable())) await delay(5)
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
    t.ok(timeoutMs > 900 && timeoutMs < 1_500, `${timeoutMs} ms`)
    const second = systemClock.monotonic()
    t.equal(await isReachable(), false)
    t.ok(systemClock.monotonic() - second < 50)
    redis.resume()
    t.ok((await untilReachable()) < 1_000)
  })

  t.test('cannot be opened while it is unreachable: the error is one line', async t => {
    await redis.kill()
    await t.rejects(openStore(redis.address, systemClock), {
      name: 'StoreError',
      message: `cannot use redis at 127.0.0.1:${redis.port}: connect ECONNREFUSED 127.0.0.1:${redis.port}`,
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
    while (!String(await redis.send('PUBSUB', 'CHANNELS')).includes('tollgate:news')) await delay(5)
    await redis.kill()
    await redis.restart()
    while (notifications === 0) await delay(5)
    const before = notifications
    const other = await openStore(redis.address, systemClock)
    await other.changeAccount('acc_1', { plan: 'growth' })
    await other.close()
    while (notifications === before) await delay(5)
    t.equal(notifications, before + 1, 'and each later change is notified once')
  })
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
    const reply = connection.sendCommand('PING').then(
      () => 'answered',
      ({ name }: Error) => name,
    )
    const closed = connection.close().then(() => 'closed')
    sockets.forEach(end)
    t.equal(await Promise.race([closed, delay(3_000)]), 'closed', way)
    t.equal(await reply, 'StoreError')
    server.close()
  }
})

const delay = (ms: number): Promise<void> => new Promise(resolve => setTimeout(resolve, ms))
