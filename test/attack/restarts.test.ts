import t from 'tap'
import { runRestarts } from './restarts.ts'

t.setTimeout(120_000)

t.test('gateways that are restarted in turns behind a load balancer lose no call', async t => {
  const { calls, lost } = await runRestarts({ restarts: 2, callsPerSecond: 200, seed: 1, log: line => t.comment(line) })
  t.equal(lost, 0)
  t.ok(calls > 200, `${calls} calls`)
})
