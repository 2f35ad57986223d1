import { setTimeout as wait } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { blockTimeMs } from '../support/faulty-node.ts'
import { createDeployment, networkFile } from '../support/deployment.ts'
import { liveBytesOf, residentBytesOf, memoryReportOptions } from '../support/process-memory.ts'
import { openCallers } from '../faults/callers.ts'
import type { CallOutcome } from '../faults/callers.ts'
import { startFaultyNetwork } from './faulty-network.ts'
import { disconnectEarly } from './early-disconnects.ts'
import { fitLine } from './linear-fit.ts'
import type { Sample } from './linear-fit.ts'

// Half an hour or more of calls to one gateway, in a process of its own as operators start it: networks of two nodes, of
// which the first has another fault every few seconds, and callers who come, go and leave early. Does memory grow, is
// anybody answered wrongly? Prints a line every ten seconds, and what came of it at the end. For Linux: memory is read from
// /proc.

const { values } = parseArgs({ options: { minutes: { type: 'string', default: '30' }, rate: { type: 'string', default: '100' } } })
const [minutes, rate] = [Number(values.minutes), Number(values.rate)]
if (!(minutes > 0 && rate > 0)) throw new Error('usage: npm run soak -- --minutes N [--rate CALLS_PER_SECOND]')

const faultyNetworks = await Promise.all([0, 1, 2, 3].map(each => startFaultyNetwork(`net-${each}`, each / 4)))
const hostOf = (network: string): string => `${network}.test`
const networkFileOf = ({ network, urls }: (typeof faultyNetworks)[number]): object => ({
  ...networkFile(network, urls, {
    upstream: { timeout: '1500ms', maxBytes: '64KiB', probeAfter: '400ms' },
    failover: { upstreams: urls.map((url, i) => ({ name: `node-${i}`, url })), breaker: { openFor: '1s' } },
  }),
  blockTime: `${blockTimeMs}ms`,
  hosts: [hostOf(network)],
})
const deployment = createDeployment({
  // Caches that are full before the warm-up is over: what they may hold is no growth.
  gateway: { log: 'error', memory: '4MiB' },
  networks: Object.fromEntries(faultyNetworks.map(lane => [lane.network, networkFileOf(lane)])),
  nodeOptions: memoryReportOptions,
})
const keys = await Promise.all(
  ['alice', 'bob'].map(async name => {
    await deployment.addAccount(name, 'custom')
    return (await deployment.addKey(name)).key
  }),
)
const gateway = await deployment.start()
const callers = openCallers(gateway.rpc, keys)

const startedAt = performance.now()
const elapsedMinutes = (): number => (performance.now() - startedAt) / 60_000
const isOver = (): boolean => elapsedMinutes() >= minutes
const outcomeCounts = { right: 0, refused: 0, wrong: 0 }
const wrongReasons = new Set<string>()
const recordOutcome = ({ kind: is, reason: why = '' }: CallOutcome): void => {
  outcomeCounts[is] += 1
  if (is === 'wrong') wrongReasons.add(why)
}
const toMiB = (bytes: number): number => bytes / (1 << 20)
let pausedNetworks = 0
let isPaused = false
const waitWhilePaused = async (): Promise<void> => {
  pausedNetworks += 1
  while (isPaused) await wait(50)
  pausedNetworks -= 1
}
const soakOptions = { callIntervalMs: (1000 * faultyNetworks.length) / rate, isOver, waitWhilePaused, recordOutcome }
const activeLoads = faultyNetworks.map(lane => lane.run(callers.forNetwork(hostOf(lane.network), 'eth_call'), soakOptions))
activeLoads.push(...faultyNetworks.map(({ network }) => disconnectEarly(gateway, keys[0] ?? '', hostOf(network), isOver)))

/** In a lull, when all nodes are well and nothing is under way: what calls in flight need is no growth. */
const measureLiveMiB = async (): Promise<number> => {
  isPaused = true
  while (pausedNetworks < faultyNetworks.length && !isOver()) await wait(50)
  await wait(2000)
  const bytes = await liveBytesOf(gateway)
  isPaused = false
  return toMiB(bytes)
}
const residentSamples: Sample[] = []
const liveSamples: Sample[] = []
let warmMinute = Infinity
for (let i = 0; !isOver(); i++) {
  await wait(Math.min(10_000, (minutes * 60_000) / 30))
  residentSamples.push({ minute: elapsedMinutes(), value: toMiB(residentBytesOf(gateway.pid)) })
  // Collecting garbage is not what operators do: seldom, so that the resident set is what it would be.
  if (i % 5 === 4 && !isOver()) liveSamples.push({ minute: elapsedMinutes(), value: await measureLiveMiB() })
  if (warmMinute === Infinity && faultyNetworks.every(({ rotations: turns }) => turns >= 1 / faultyNetworks.length))
    warmMinute = elapsedMinutes()
  const now = `${elapsedMinutes().toFixed(1)} min  ${residentSamples.at(-1)?.value.toFixed(1)} MiB, live ${liveSamples.at(-1)?.value.toFixed(2) ?? '?'}`
  console.log(`${now}  ${JSON.stringify(outcomeCounts)}  ${faultyNetworks.map(({ currentFault: fault }) => fault).join(', ')}`)
}
await Promise.all(activeLoads)
await callers.stop()
const exitCode = await gateway.stop()
await deployment.remove()
await Promise.all(faultyNetworks.map(lane => lane.stop()))

// What is made when it is first needed is there once each fault has been seen; a short run has to judge before.
const judgedFromMinute = Math.max(minutes / 3, Math.min(warmMinute, minutes / 2))
const growthInTenMinutes = (points: readonly Sample[]) => {
  const judged = points.filter(point => point.minute >= judgedFromMinute)
  if (judged.length < 3) return { rise: 0, doubt: Infinity, words: 'unknown: the run was too short' }
  const { slopePerMinute: rise, marginPerMinute: doubt } = fitLine(judged)
  return { rise: 10 * rise, doubt: 10 * doubt, words: `${(10 * rise).toFixed(2)} MiB (± ${(10 * doubt).toFixed(2)}) in ten minutes` }
}
const [liveGrowth, residentGrowth] = [growthInTenMinutes(liveSamples), growthInTenMinutes(residentSamples)]
const callCount = outcomeCounts.right + outcomeCounts.refused + outcomeCounts.wrong
console.log(`from minute ${judgedFromMinute.toFixed(1)} on: live memory ${liveGrowth.words}, resident ${residentGrowth.words}`)
console.log(
  `calls: ${callCount}, right ${((100 * outcomeCounts.right) / callCount).toFixed(3)} %, refused ${outcomeCounts.refused}, wrong ${outcomeCounts.wrong}`,
)
for (const why of wrongReasons) console.log(`wrong: ${why}`)
const hasLiveGrowth = liveGrowth.rise - liveGrowth.doubt >= 1
if (hasLiveGrowth) console.log('live memory grows')
if (exitCode !== 0) console.log(`the gateway ended with ${exitCode}: ${gateway.stderr()}`)
process.exitCode = outcomeCounts.wrong === 0 && exitCode === 0 && !hasLiveGrowth ? 0 : 1
