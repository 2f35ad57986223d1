import t from '../support/tap.ts'
import { SeededRandom } from '../simulation/seeded-random.ts'
import { combineDecisions, growthOf, judge } from './growth.ts'

const minutes = 60

/** One sample a minute: what warms up in the first half, a slope, and noise of up to 2 MiB to either side. */
const samplesOf = (slopePerMinute: number, noise = 2) => {
  const random = new SeededRandom(1)
  return Array.from({ length: minutes }, (_, minute) => ({
    minute,
    value: 100 + 50 * Math.min(1, minute / 20) + slopePerMinute * minute + noise * (2 * random.next() - 1),
  }))
}

const maxSlope = 0.05

t.test('a leak is told from noise, and from what warms up in the first half of a run', async t => {
  const decisionOf = (...options: Parameters<typeof samplesOf>) => judge(growthOf(samplesOf(...options), minutes), maxSlope)
  t.equal(decisionOf(0, 0.5), 'no slope')
  t.equal(decisionOf(0.03, 0.1), 'no slope', 'within the limit')
  t.equal(decisionOf(0.3), 'leak')
  t.equal(decisionOf(0.07, 0.1), 'leak')
  t.equal(decisionOf(0.05), 'undecided', 'the noise hides whether the limit is passed')
  t.equal(decisionOf(0, 20), 'undecided')
})

t.test('the slope is that of the line, the interval holds the true one, and single samples far off change neither', async t => {
  const exact = growthOf(samplesOf(0.25, 0), minutes)
  for (const slope of Object.values(exact)) t.ok(Math.abs(slope - 0.25) < 1e-9)
  const samples = samplesOf(0.25)
  const noisy = growthOf(samples, minutes)
  t.ok(noisy.lower < 0.25 && 0.25 < noisy.upper)
  const withSpikes = growthOf(
    samples.map(({ minute, value }) => ({ minute, value: minute % 11 === 0 ? value + 1000 : value })),
    minutes,
  )
  t.ok(withSpikes.lower < 0.25 && 0.25 < withSpikes.upper && withSpikes.upper - withSpikes.lower < 1)
})

t.test('a run that is too short decides nothing', async t => {
  t.equal(judge(growthOf(samplesOf(5).slice(0, 39), minutes), maxSlope), 'undecided')
})

t.test('one leak makes a run a leak, and one series without a decision leaves it without one', async t => {
  t.equal(combineDecisions(['no slope', 'undecided', 'leak']), 'leak')
  t.equal(combineDecisions(['no slope', 'undecided', 'no slope']), 'undecided')
  t.equal(combineDecisions(['no slope', 'no slope']), 'no slope')
})
