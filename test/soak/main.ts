import { parseArgs } from 'node:util'
import { faults, isRight } from '../support/faults.ts'
import type { Fault, FaultName } from '../support/faults.ts'
import { startFaultyNode } from '../support/faulty.ts'
import { openLoad } from '../faults/load.ts'
import type { Outcome } from '../faults/load.ts'

// Half an hour or more of calls to two nodes, the first of which has another fault every few seconds: does memory grow, is
// anybody answered wrongly? Prints a line every ten seconds, and the slope at the end.

const { values } = parseArgs({ options: { minutes: { type: 'string', default: '30' }, rate: { type: 'string', default: '100' } } })
const [minutes, rate] = [Number(values.minutes), Number(values.rate)]
if (!(minutes > 0 && rate > 0)) throw new Error('usage: npm run soak -- --minutes N [--rate CALLS_PER_SECOND]')

/** In ms. */
const round = 10_000
const rounds = Math.max(3, Math.round(minutes * 60_000 / round))
const mib = 1 << 20

const names = Object.keys(faults) as FaultName[]
const counts = { right: 0, refused: 0, wrong: 0 }
const samples: { readonly minute: number, readonly rss: number }[] = []
const [first, second] = await Promise.all([startFaultyNode(isRight), startFaultyNode(isRight)])
const load = openLoad([first.url, second.url])
const begun = performance.now()

for (let i = 0; i < rounds; i++) {
  const name = names[i % names.length] ?? 'hangs'
  const fault: Fault = faults[name]
  first.does(fault)
  const sent = await load.send(1000 / rate, calls => calls.length >= rate * round / 1000)
  tally(await Promise.all(sent.map(({ done }) => done)))
  const sample = { minute: (performance.now() - begun) / 60_000, rss: process.memoryUsage.rss() / mib }
  samples.push(sample)
  console.log(`${sample.minute.toFixed(1)} min  ${sample.rss.toFixed(0)} MiB  ${JSON.stringify(counts)}  ${name}`)
}
await load.stop()
await Promise.all([first.stop(), second.stop()])

// The first third warms up.
const slope = slopeOf(samples.slice(Math.floor(samples.length / 3)))
const calls = counts.right + counts.refused + counts.wrong
console.log(`memory: ${(slope * 10).toFixed(2)} MiB in ten minutes; calls: ${calls}, right ${(100 * counts.right / calls).toFixed(2)} %, wrong ${counts.wrong}`)
process.exitCode = counts.wrong === 0 ? 0 : 1

function tally(outcomes: readonly Outcome[]): void {
  for (const { is } of outcomes) counts[is] += 1
}

/** Of the straight line that fits best, in MiB per minute. */
function slopeOf(points: typeof samples): number {
  const mean = (of: (point: (typeof samples)[number]) => number) => points.reduce((sum, point) => sum + of(point), 0) / points.length
  const [x, y] = [mean(({ minute }) => minute), mean(({ rss }) => rss)]
  const spread = mean(({ minute }) => (minute - x) ** 2)
  return spread === 0 ? 0 : mean(({ minute, rss }) => (minute - x) * (rss - y)) / spread
}
