import { readFileSync, readdirSync } from 'node:fs'
import fc from 'fast-check'
import { severityOfFailures } from '../../src/portal/failure-share.ts'
import { formatTick, timeSpaceOf, timeStepsOf } from '../../src/portal/page/components/plot-axis.ts'
import { failuresHeight, linePartsOf, shareOf, timeRangeOf, withoutEmpty } from '../../src/portal/page/components/plot-geometry.ts'
import {
  formatAgeSince,
  formatCompact,
  formatDay,
  formatEstimate,
  formatHourOfUse,
  formatHours,
  formatMethod,
  formatNode,
  formatNumber,
  formatShare,
  formatSpan,
  groupDigits,
} from '../../src/portal/page/format.ts'
import { formatOrdinal } from '../../src/portal/page/operator/format-ordinal.ts'
import t from '../support/tap.ts'

t.test('a half is rounded up, as it is written', t => {
  const compact = new Intl.NumberFormat('en', { notation: 'compact' })
  for (let value = 5; value < 20_000; value += 5) if (formatCompact(value) !== compact.format(value)) t.fail(`${value}`)
  t.equal(formatCompact(1_650), '1.7K')
  t.equal(formatEstimate(1_650), '≈\u00a01,700')
  t.end()
})

t.test('a share is on one line, and calls of methods that there are not have a name that says so', t => {
  t.same([formatShare(9_902, 10_000), formatMethod('other'), formatMethod('eth_call')], ['99.02\u00a0%', 'unknown methods', 'eth_call'])
  const shares = [986, 999, 1_000, 0].map(part => formatShare(part, 1_000).slice(0, -2))
  t.same(shares, ['98.60', '99.90', '100', '0'], 'as many decimals in all rows')
  t.end()
})

t.test('of a call that was answered from the cache, the cache is named in place of a node', t => {
  const shown = [
    { upstream: 'node-1', cache: 'miss' },
    { upstream: null, cache: 'hit' },
    { upstream: null, cache: null },
  ].map(formatNode)
  t.same(shown, ['node-1', 'cache', '–'])
  t.end()
})

t.test('the age of what began in a second is that of the second which is shown', t => {
  const end = Date.parse('2026-01-31T14:05:21.100Z')
  const ages = ['2026-01-31T14:05:09.000Z', '2026-01-31T14:05:09.999Z', '2026-01-31T14:05:21.900Z'].map(began => formatAgeSince(began, end))
  t.same(ages, ['12 s', '12 s', '0 s'])
  t.equal(formatAgeSince('2026-01-31T13:00:21.999Z', end), '1 h 5 min')
  t.end()
})

t.test('what a column of a chart covers is named from its beginning to its end, in UTC', t => {
  const spanOf = (iso: string, minutes: number) =>
    formatSpan(iso, minutes * 60_000)
      .replaceAll('\u2060', '')
      .replaceAll('\u00a0', ' ')
  t.equal(spanOf('2026-01-31T14:00:00.000Z', 60), 'Jan 31, 14:00–15:00 UTC')
  t.equal(spanOf('2026-01-31T23:55:00.000Z', 5), 'Jan 31, 23:55–00:00 UTC')
  t.equal(spanOf('2026-01-31T00:00:00.000Z', 24 * 60), 'Jan 31, UTC')
  t.equal(spanOf('2026-01-31T14:05:00.000Z', 0), 'Jan 31, 14:05 UTC', 'a point of time has no end')
  t.end()
})

t.test('a series of which nothing is drawn is not named, unless there is no other', t => {
  const seriesOf = (name: string, ...points: readonly (number | null)[]) => ({ id: name, name, color: 'series-1', points })
  const [zeros, some, nothing] = [seriesOf('zeros', 0, 0, null), seriesOf('some', 0, 1), seriesOf('nothing', null, null)]
  t.same(withoutEmpty([zeros, some, nothing], 'columns'), [some])
  t.same(withoutEmpty([zeros, some, nothing], 'lines'), [zeros, some], 'a line of zeros is drawn')
  t.same(withoutEmpty([zeros, nothing], 'columns'), [zeros, nothing])
  t.end()
})

t.test('the axis of time is as long as its range, or as its points, and a step at least where there is a single one', t => {
  const [first, next] = ['2026-01-31T14:00:00.000Z', '2026-01-31T15:00:00.000Z']
  const [start, stepMs] = [Date.parse(first) / 1_000, 3_600_000]
  const columns = { times: [first, next], stepMs, kind: 'columns' } as const
  t.same(timeRangeOf(columns), [start, start + 7_200])
  t.same([shareOf(columns, 0), shareOf(columns, 1)], [0.25, 0.75])
  t.same(timeRangeOf({ ...columns, times: [first] }), [start, start + 3_600])
  const lines = { ...columns, kind: 'lines' } as const
  t.same(timeRangeOf(lines), [start, start + 3_600])
  t.same([shareOf(lines, 0), shareOf(lines, 1)], [0, 1])
  t.same(timeRangeOf({ ...lines, rangeMs: 86_400_000 }), [start + 3_600 - 86_400, start + 3_600])
  const single = { ...lines, times: [first] }
  t.same([timeRangeOf(single), shareOf(single, 0)], [[start - 3_600, start], 1])
  t.same(timeRangeOf({ ...single, stepMs: 0, rangeMs: 86_400_000 }), [start - 86_400, start])
  t.end()
})

t.test('a point of a line that is not over yet stands alone', t => {
  const series = [{ id: 'p95', name: 'p95', color: 'series-1', points: [1, null, 3, 4] }]
  t.same(linePartsOf({ series, isRunning: false }), [{ color: 'series-1', points: [1, null, 3, 4], isLast: false }])
  t.same(linePartsOf({ series, isRunning: true }), [
    { color: 'series-1', points: [1, null, 3, null], isLast: false },
    { color: 'series-1', points: [null, null, null, 4], isLast: true },
  ])
  t.end()
})

t.test('failed calls are of concern by their share; of fewer than 20 calls a share says little', t => {
  const severityOf = (failedCalls: number, calls: number) => severityOfFailures({ calls, failedCalls })
  t.same([severityOf(0, 0), severityOf(1, 1), severityOf(19, 19)], [undefined, undefined, undefined])
  t.same([severityOf(1, 20), severityOf(21, 1_000), severityOf(20, 1_000)], ['critical', 'critical', 'warning'])
  t.same([severityOf(6, 1_000), severityOf(5, 1_000)], ['warning', undefined])
  t.end()
})

t.test('places are counted as in English, without Intl, whose first use takes long', t => {
  const rules = new Intl.PluralRules('en', { type: 'ordinal' })
  const suffixes: Readonly<Record<string, string>> = { one: 'st', two: 'nd', few: 'rd', other: 'th' }
  for (let count = 1; count < 1_200; count += 1) {
    const expected = `${count}${suffixes[rules.select(count)]}`
    if (formatOrdinal(count) !== expected) t.equal(formatOrdinal(count), expected)
  }
  const sources = readdirSync('src/portal/page', { recursive: true, encoding: 'utf8' }).filter(name => /\.tsx?$/.test(name))
  const users = sources.filter(name => name !== 'vite.config.ts' && /\bnew Intl\./.test(readFileSync(`src/portal/page/${name}`, 'utf8')))
  t.same(users, [])
  t.end()
})

t.test('numbers and days of the page are written as Intl has them in English', async () => {
  const [numbers, compact, estimates] = [{}, { notation: 'compact' }, { maximumSignificantDigits: 2 }].map(
    options => new Intl.NumberFormat('en', options as Intl.NumberFormatOptions),
  )
  const days = new Intl.DateTimeFormat('en', { month: 'short', day: 'numeric', timeZone: 'UTC' })
  const wholeNumbers = fc.oneof(fc.nat(2_000), fc.maxSafeNat())
  fc.assert(
    fc.property(wholeNumbers, fc.maxSafeNat(), fc.nat(3), fc.nat(4_102_444_800_000), (whole, thousandths, decimals, time) => {
      const fraction = thousandths / 1_000 ** decimals
      return (
        formatNumber(whole) === numbers?.format(whole) &&
        formatNumber(whole / 4) === numbers?.format(whole / 4) &&
        formatCompact(whole) === compact?.format(whole) &&
        groupDigits(String(BigInt(whole) ** 3n)) === numbers?.format(BigInt(whole) ** 3n) &&
        (fraction < 0.01 || formatCompact(fraction) === compact?.format(fraction)) &&
        (whole === 0 || formatEstimate(whole).slice(2) === estimates?.format(whole)) &&
        formatDay(new Date(time)) === days.format(time)
      )
    }),
    { numRuns: 2_000 },
  )
})

t.test('an hour is compared with the one before it, across midnight too', async t => {
  const shown = formatHours('2026-01-31T00:00:00.000Z', 'with').replaceAll('\u2060', '')
  t.equal(shown, '00:00–01:00 with 23:00–00:00\u00a0UTC')
})

t.test('of what is known by the hour, the day and the hour are named; of older days the date', async t => {
  const now = Date.parse('2026-01-31T14:05:00.000Z')
  const shown = ['2026-01-31T14:00:00.000Z', '2026-01-31T00:00:00.000Z', '2026-01-30T23:00:00.000Z', '2026-01-20T00:00:00.000Z', null].map(
    iso => formatHourOfUse(iso, now).replaceAll('\u2060', '').replaceAll('\u00a0', ' '),
  )
  t.same(shown, ['Jan 31, 14:00–15:00 UTC', 'Jan 31, 00:00–01:00 UTC', 'Jan 30, 23:00–00:00 UTC', '2026-01-20', 'never'])
})

t.test('the axis of a narrow chart has a time, from 10 minutes on two, all with seconds or all without', async t => {
  const widthPx = 206
  const hour = 3_600
  for (let range = 60; range <= 31 * 24 * hour; range = Math.ceil(range * 1.07)) {
    // As uPlot chooses it.
    const step = timeStepsOf(range, 15).find(each => (each / range) * widthPx >= timeSpaceOf(range)) ?? Infinity
    t.ok((range < 600 ? step : 2 * step) <= range, `${range} s by ${step} s`)
  }
  t.equal(formatTick(12 * hour + 1_800, 15, 900), '12:30')
  t.equal(formatTick(12 * hour + 1_830, 15, 30), '12:30:30')
  t.equal(formatTick(24 * hour, 15, 900), 'Jan 2')
})

t.test('failed calls are seen in each column, and fill none in which others were answered', async t => {
  t.equal(failuresHeight(0.08, 0.08, 1), 3, 'all of few')
  t.equal(failuresHeight(0.01, 100, 1), 3, 'few of many')
  t.equal(failuresHeight(1, 4, 1), 2, 'some of few')
  t.equal(failuresHeight(0.02, 0.1, 2), 2, 'a pixel at least')
  t.equal(failuresHeight(50, 100, 1), 50)
})

t.test('the axis of columns has times at which a column begins', async t => {
  t.equal(timeStepsOf(3 * 3_600, 3_600)[0], 3_600)
})

t.test('the axis of days has each day once, however wide the chart is', async t => {
  const day = 86_400
  t.same(timeStepsOf(7 * day, day).slice(0, 3), [day, 2 * day, 3 * day])
  t.ok(timeStepsOf(7 * day, 3_600).includes(6 * 3_600), 'of hours it has times too')
})
