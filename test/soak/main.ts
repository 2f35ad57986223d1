import { setTimeout as wait } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { blockTime } from '../support/faulty.ts'
import { createDeployment, networkFile } from '../support/gateway.ts'
import { liveOf, residentOf, telling } from '../support/memory.ts'
import { openCallers } from '../faults/load.ts'
import type { Outcome } from '../faults/load.ts'
import { openLane } from './lane.ts'
import { leaveEarly } from './leave.ts'
import { slopeOf } from './slope.ts'
import type { Point } from './slope.ts'

// Half an hour or more of calls to one gateway, in a process of its own as operators start it: networks of two nodes, of
// which the first has another fault every few seconds, and callers who come, go and leave early. Does memory grow, is
// anybody answered wrongly? Prints a line every ten seconds, and what came of it at the end. For Linux: memory is read from
// /proc.

const { values } = parseArgs({ options: { minutes: { type: 'string', default: '30' }, rate: { type: 'string', default: '100' } } })
const [minutes, rate] = [Number(values.minutes), Number(values.rate)]
if (!(minutes > 0 && rate > 0)) throw new Error('usage: npm run soak -- --minutes N [--rate CALLS_PER_SECOND]')

const lanes = await Promise.all([0, 1, 2, 3].map(each => openLane(`net-${each}`, each / 4)))
const hostOf = (network: string): string => `${network}.test`
const fileOf = ({ network, urls }: (typeof lanes)[number]): object => ({
  ...networkFile(network, urls, {
    upstream: { timeout: '1500ms', maxBytes: '64KiB', silence: '400ms' },
    failover: { upstreams: urls.map((url, i) => ({ name: `node-${i}`, url })), breaker: { pause: '1s' } },
  }),
  blockTime: `${blockTime}ms`,
  hosts: [hostOf(network)],
})
const deployment = createDeployment({
  // Caches that are full before the warm-up is over: what they may hold is no growth.
  gateway: { log: 'error', memory: '4MiB' },
  networks: Object.fromEntries(lanes.map(lane => [lane.network, fileOf(lane)])),
  node: telling,
})
const keys = await Promise.all(
  ['alice', 'bob'].map(async name => {
    await deployment.addAccount(name, 'custom')
    return (await deployment.addKey(name)).key
  }),
)
const gateway = await deployment.start()
const callers = openCallers(gateway.rpc, keys)

const begun = performance.now()
const minute = (): number => (performance.now() - begun) / 60_000
const isOver = (): boolean => minute() >= minutes
const counts = { right: 0, refused: 0, wrong: 0 }
const wrong = new Set<string>()
const tell = ({ is, why = '' }: Outcome): void => {
  counts[is] += 1
  if (is === 'wrong') wrong.add(why)
}
const mib = (bytes: number): number => bytes / (1 << 20)
let resting = 0
let isCalm = false
const lull = async (): Promise<void> => {
  resting += 1
  while (isCalm) await wait(50)
  resting -= 1
}
const terms = { every: (1000 * lanes.length) / rate, isOver, lull, tell }
const running = lanes.map(lane => lane.run(callers.on(hostOf(lane.network), 'eth_call'), terms))
running.push(...lanes.map(({ network }) => leaveEarly(gateway, keys[0] ?? '', hostOf(network), isOver)))

/** In a lull, when all nodes are well and nothing is under way: what calls in flight need is no growth. */
const measureLive = async (): Promise<number> => {
  isCalm = true
  while (resting < lanes.length && !isOver()) await wait(50)
  await wait(2000)
  const bytes = await liveOf(gateway)
  isCalm = false
  return mib(bytes)
}
const resident: Point[] = []
const live: Point[] = []
let warm = Infinity
for (let i = 0; !isOver(); i++) {
  await wait(Math.min(10_000, (minutes * 60_000) / 30))
  resident.push({ minute: minute(), value: mib(residentOf(gateway.pid)) })
  // Collecting garbage is not what operators do: seldom, so that the resident set is what it would be.
  if (i % 5 === 4 && !isOver()) live.push({ minute: minute(), value: await measureLive() })
  if (warm === Infinity && lanes.every(({ turns }) => turns >= 1 / lanes.length)) warm = minute()
  const now = `${minute().toFixed(1)} min  ${resident.at(-1)?.value.toFixed(1)} MiB, live ${live.at(-1)?.value.toFixed(2) ?? '?'}`
  console.log(`${now}  ${JSON.stringify(counts)}  ${lanes.map(({ fault }) => fault).join(', ')}`)
}
await Promise.all(running)
await callers.stop()
const code = await gateway.stop()
await deployment.remove()
await Promise.all(lanes.map(lane => lane.stop()))

// What is made when it is first needed is there once each fault has been seen; a short run has to judge before.
const from = Math.max(minutes / 3, Math.min(warm, minutes / 2))
const inTen = (points: readonly Point[]) => {
  const judged = points.filter(point => point.minute >= from)
  if (judged.length < 3) return { rise: 0, doubt: Infinity, words: 'unknown: the run was too short' }
  const { rise, doubt } = slopeOf(judged)
  return { rise: 10 * rise, doubt: 10 * doubt, words: `${(10 * rise).toFixed(2)} MiB (± ${(10 * doubt).toFixed(2)}) in ten minutes` }
}
const [growth, surface] = [inTen(live), inTen(resident)]
const calls = counts.right + counts.refused + counts.wrong
console.log(`from minute ${from.toFixed(1)} on: live memory ${growth.words}, resident ${surface.words}`)
console.log(`calls: ${calls}, right ${((100 * counts.right) / calls).toFixed(3)} %, refused ${counts.refused}, wrong ${counts.wrong}`)
for (const why of wrong) console.log(`wrong: ${why}`)
const grows = growth.rise - growth.doubt >= 1
if (grows) console.log('live memory grows')
if (code !== 0) console.log(`the gateway ended with ${code}: ${gateway.stderr()}`)
process.exitCode = counts.wrong === 0 && code === 0 && !grows ? 0 : 1
