import t from 'tap'
import { runKills } from './kills.ts'

t.setTimeout(240_000)

// `npm run attack` does more of these, reloads under load, and restarts gateways behind a load balancer.

const skip = process.platform !== 'linux' && 'lists processes as Linux does'
t.test('a primary or worker that is killed takes no more along than it held', { skip }, async t => {
  const { kills, ...figures } = await runKills({ seed: 2, kills: 2, store: 'lmdb', log: line => t.comment(line) })
  t.same(figures, { hungStores: 0, servedOver: 0, forfeitedBeyondKilled: 0, wrong: 0, crossed: 0 })
  t.equal(kills, 2)
})
