import t from 'tap'
import { maxLeakedBytes, runReloads } from './reloads.ts'
import { runKills } from './kills.ts'

t.setTimeout(240_000)

// `npm run attack` does more of these, and restarts gateways behind a load balancer.

t.test('a gateway that reloads under load loses no call and no WebSocket, and keeps no memory of what it replaced', async t => {
  const options = { reloads: 8, callsPerSecond: 200, workers: 1, seed: 1, log: (line: string) => void t.comment(line) }
  const { calls, lost, droppedSockets, leakedBytesPerReload } = await runReloads(options)
  t.same({ lost, droppedSockets }, { lost: 0, droppedSockets: 0 })
  t.ok(calls > 100, `${calls} calls`)
  t.ok(leakedBytesPerReload < maxLeakedBytes, `${leakedBytesPerReload} bytes a reload`)
})

const skip = process.platform !== 'linux' && 'lists processes as Linux does'
t.test('a primary or worker that is killed takes no more along than it held', { skip }, async t => {
  const { kills, ...figures } = await runKills({ seed: 2, kills: 2, store: 'lmdb', log: line => t.comment(line) })
  t.same(figures, { hungStores: 0, servedOver: 0, forfeitedBeyondKilled: 0, wrong: 0, crossed: 0 })
  t.equal(kills, 2)
})
