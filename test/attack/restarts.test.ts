import t from 'tap'
import { skipWithoutRedis } from '../support/redis-server.ts'
import { maxLeakedBytes, runReloads } from './reloads.ts'
import { runKills } from './kills.ts'
import { runRestarts } from './restarts.ts'

t.setTimeout(240_000)

t.test('gateways that are restarted in turns behind a load balancer lose no call', async t => {
  const { calls, lost } = await runRestarts({ restarts: 2, callsPerSecond: 200, seed: 1, log: line => t.comment(line) })
  t.equal(lost, 0)
  t.ok(calls > 200, `${calls} calls`)
})

t.test('a gateway that reloads under load loses no call and no WebSocket, and keeps no memory of what it replaced', async t => {
  const options = { reloads: 8, callsPerSecond: 200, workers: 1, seed: 1, log: (line: string) => void t.comment(line) }
  const { calls, lost, droppedSockets, leakedBytesPerReload } = await runReloads(options)
  t.same({ lost, droppedSockets }, { lost: 0, droppedSockets: 0 })
  t.ok(calls > 100, `${calls} calls`)
  t.ok(leakedBytesPerReload < maxLeakedBytes, `${leakedBytesPerReload} bytes a reload`)
})

for (const store of ['lmdb', 'redis'] as const) {
  const skip = (process.platform !== 'linux' && 'lists processes as Linux does') || (store === 'redis' && skipWithoutRedis)
  t.test(`a primary or worker that is killed takes no more along than it held: ${store}`, { skip }, async t => {
    const { kills, ...figures } = await runKills({ seed: 2, kills: 2, store, log: line => t.comment(line) })
    t.same(figures, { hungStores: 0, servedOver: 0, forfeitedBeyondKilled: 0, wrong: 0, crossed: 0 })
    t.equal(kills, 2)
  })
}
