import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import type { NetworkStatusJson } from '../../routes/networks.ts'
import { joinTimes } from '../../../util/time-spans.ts'
import type { TimeSpan } from '../../../util/time-spans.ts'
import { now } from '../clock.ts'
import { Banner } from '../components/banner.tsx'
import { SearchField } from '../components/controls.tsx'
import { EmptyState } from '../components/empty-state.tsx'
import { NewestBlock, StateBadge, usableNodesOf } from '../components/network-state.tsx'
import { Facts } from '../components/facts.tsx'
import { formatAgeSince, formatDay, formatDuration, formatMoment, formatNumber, formatShare } from '../format.ts'
import { developerTexts } from './developer-texts.ts'

const text = developerTexts.networks

/** How all networks are, what is worst first. */
export const NetworksSummary = ({ networks }: { readonly networks: readonly NetworkStatusJson[] }) => {
  const namesIn = (wanted: NetworkStatusJson['state']) => networks.filter(({ state }) => state === wanted).map(({ name }) => name)
  const problems = problemBanners.map(each => ({ ...each, names: namesIn(each.state) })).filter(({ names }) => names.length > 0)
  const idle = namesIn('unknown')
  if (problems.length === 0) {
    if (idle.length === 0) return <Banner tone="ok" title={text.allOk} />
    return (
      <Banner tone="ok" title={text.noneKnown}>
        {text.notInUse} {idle.join(', ')}
      </Banner>
    )
  }
  return (
    <>
      {problems.map(({ state, tone, title, names }) => (
        <Banner key={state} tone={tone} title={title}>
          {names.join(', ')}
        </Banner>
      ))}
    </>
  )
}

const problemBanners = [
  { state: 'down', tone: 'danger', title: text.someDown },
  { state: 'stalled', tone: 'warn', title: text.someStalled },
  { state: 'degraded', tone: 'warn', title: text.someDegraded },
] as const

/** With so many networks, one looks for a name. */
const minSearched = 8

interface NetworkListProps<Network extends NetworkStatusJson> {
  readonly networks: readonly Network[]
  /** What else is shown of a network. */
  detailsOf?(network: Network): ComponentChildren
}

export const NetworkList = <Network extends NetworkStatusJson>({ networks, detailsOf }: NetworkListProps<Network>) => {
  const search = useSignal('')
  const found = networks.filter(({ name, chainId }) => `${name} ${chainId}`.includes(search.value.trim().toLowerCase()))
  return (
    <>
      {networks.length >= minSearched && (
        <div class="controls">
          <SearchField label={text.search} value={search.value} onInput={value => (search.value = value)} />
        </div>
      )}
      {found.length === 0 && <EmptyState icon="search" title={developerTexts.nothingFound} />}
      {found.some(({ outageDays }) => outageDays !== null) && (
        <ul class="legend of-days" aria-label={text.uptime}>
          {dayTones.map(({ tone, label }) => (
            <li key={tone}>
              <span class={`swatch ${tone}`} />
              {label}
            </li>
          ))}
          <li>{text.tallerIsLonger}</li>
        </ul>
      )}
      {found.map(network => (
        <section key={network.name} class="card network" aria-label={network.name}>
          <div class="heading">
            <h2>{network.name}</h2>
            <StateBadge state={network.state} />
          </div>
          <Facts of={factsOf(network)} />
          {(network.incidents.length > 0 || network.outageDays?.length !== 0) && <Incidents network={network} />}
          <Uptime network={network} />
          {detailsOf?.(network)}
        </section>
      ))}
    </>
  )
}

const dayTones = [
  { tone: 'ok', label: text.dayTones.ok },
  { tone: 'warn', label: text.dayTones.warn },
  { tone: 'danger', label: text.dayTones.danger },
  { tone: 'unobserved', label: text.dayTones.unobserved },
]

/** When it was not in order, and for how long; what was not observed had nothing that could be told. Without outages in 90 days, that says it all. */
const Incidents = ({ network: { incidents, observedSeconds } }: { readonly network: NetworkStatusJson }) => {
  const observed = observedSeconds?.last24Hours ?? 0
  return (
    <section class="incidents" aria-label={text.incidents}>
      <p class="help">
        {text.incidents}
        {observedSeconds !== null && describeObserved(observed, daySeconds)}
        {incidents.length === 0 && `: ${observedSeconds === null || observed > 0 ? text.noIncidents : text.noData}`}
      </p>
      {incidents.length > 0 && (
        <ul class="counts">
          {incidents.map(({ state, because, began, ended }) => (
            <li key={`${state} ${because} ${began}`} class="buttons">
              <StateBadge state={state} />
              <span>
                {formatMoment(began, now.value)} – {ended === null ? text.now : formatMoment(ended, now.value)}
              </span>
              <span class="since">
                {formatAgeSince(began, ended === null ? now.value : Date.parse(ended))}
                {because !== null && `, ${text.because[because]}`}
              </span>
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}

/** `, observed for 1 h 5 min of 24 h`; nothing where it was observed all the time, as far as the last minutes are known. */
const describeObserved = (seconds: number, ofSeconds: number): string =>
  seconds === 0 || ofSeconds - seconds < unknownSeconds
    ? ''
    : `, ${text.observedFor} ${formatHours(seconds)} ${developerTexts.of} ${formatHours(ofSeconds)}`

/** Observations are in steps of 5 minutes, and read once a minute. */
const unknownSeconds = 600

const daySeconds = 86_400

/** `1 h 5 min`; of days, `1,899 h`. */
const formatHours = (seconds: number): string =>
  seconds > 2 * daySeconds ? `${formatNumber(Math.floor(seconds / 3_600))} h` : formatDuration(seconds * 1_000).replace(/ h 0 min$/, ' h')

const shownDays = 90
const dayMs = 1_000 * daySeconds

/** A bar for each day: how much of it had an outage that was seen. Its share is of the time that was observed. */
const Uptime = ({ network }: { readonly network: NetworkStatusJson }) => {
  const { incidents, outageDays, outagesSince, unobservedDays, observedSince, observedSeconds } = network
  if (outageDays === null || outagesSince === null || observedSeconds === null) return null
  const today = Math.floor(now.value / dayMs)
  const first = today - shownDays + 1
  const observedFrom = Math.max(first, dayOf(outagesSince))
  const gaps = unobservedDays.map(({ from, to }) => ({ from: dayOf(from), to: dayOf(to), title: from === to ? from : `${from} – ${to}` }))
  const unobserved = gaps.reduce((sum, { from, to }) => sum + to + 1 - from, 0)
  const lost = outageDays.reduce((sum, { downSeconds, stalledSeconds }) => sum + downSeconds + stalledSeconds, 0)
  // An outage is known from its beginning on, and at once; that it was observed, a little later.
  const observed = Math.max(lost, observedSeconds.last90Days)
  // Of less than a day a share says nothing.
  const isShort = observed < daySeconds && observedSince !== null
  const elapsed = (now.value - (isShort ? Date.parse(observedSince) : observedFrom * dayMs)) / 1_000
  // Of the last 24 hours alone it is known when there were fewer or slow nodes, which may be at once.
  const reduced = joinTimes(
    incidents
      .filter(({ state }) => state === 'degraded')
      .map(({ began, ended }) => ({
        began: Math.max(Date.parse(began), now.value - dayMs),
        ended: ended === null ? now.value : Date.parse(ended),
      }))
      .filter(({ began, ended }) => began < ended),
  )
  const reducedMs = msOf(reduced)
  const reducedDates = new Set(reduced.flatMap(({ began, ended = now.value }) => [began, ended - 1].map(dateOf)))
  const days = [
    ...[...reducedDates]
      .filter(date => !outageDays.some(day => day.date === date))
      .map(date => {
        const start = Date.parse(date)
        const ofDay = reduced.map(({ began, ended = now.value }) => ({
          ...{ began: Math.max(began, start), ended: Math.min(ended, start + dayMs) },
        }))
        return describeDay(date, [{ state: 'degraded', seconds: msOf(ofDay.filter(({ began, ended }) => began < ended)) / 1_000 }])
      }),
    ...outageDays.map(({ date, downSeconds, stalledSeconds }) =>
      describeDay(date, [
        { state: 'down', seconds: downSeconds },
        { state: 'stalled', seconds: stalledSeconds },
      ]),
    ),
  ].map(day => ({ ...day, left: shareOfDays(dayOf(day.date) - first), width: undefined }))
  const unknown = [...(observedFrom > first ? [{ from: first, to: observedFrom - 1, title: '' }] : []), ...gaps].map(
    ({ from, to, title }) => ({
      ...{ tone: 'unobserved', left: shareOfDays(from - first), width: shareOfDays(to + 1 - from), title: `${title}: ${text.noData}` },
      height: undefined,
    }),
  )
  return (
    <section class="uptime" aria-label={text.uptime}>
      <p class="help">
        {isShort
          ? `${text.observedSince} ${formatMoment(observedSince, now.value)}`
          : observedFrom === first
            ? text.uptime
            : `${text.since} ${outagesSince}`}
        {describeObserved(observed, elapsed)}:{' '}
        {observed === 0
          ? text.noData
          : lost === 0
            ? reducedMs === 0
              ? text.noIncidents
              : `${text.noOutages}; ${text.degradedFor} ${formatLost(reducedMs / 1_000)} ${text.ofLastDay}`
            : `${formatLost(lost)} ${text.ofOutage}${isShort ? '' : `, ${formatShare(observed - lost, observed)} ${text.withoutOutage}`}`}
        {observed > 0 && unobserved > 0 && `; ${text.noCalls} ${formatNumber(unobserved)} ${unobserved === 1 ? text.day : text.days}`}
      </p>
      <div class="days" role="img" aria-label={days.length === 0 ? text.noIncidents : days.map(({ title }) => title).join('; ')}>
        {[...unknown, ...days].map(({ tone, left, width, height, title }) => (
          <span key={title} class={tone} style={{ left, width }} title={title}>
            {height !== undefined && <i style={{ height }} />}
          </span>
        ))}
      </div>
      <p class="help spread" aria-hidden="true">
        <span>{formatDay(new Date(first * dayMs))}</span>
        <span>{text.today}</span>
      </p>
      {days.length > 0 && (
        <details>
          <summary>{text.byDay}</summary>
          <ul class="counts">
            {days.toReversed().map(({ title }) => (
              <li key={title}>{title}</li>
            ))}
          </ul>
        </details>
      )}
    </section>
  )
}

const msOf = (times: readonly TimeSpan[]): number => times.reduce((sum, { began, ended = now.value }) => sum + ended - began, 0)

const dateOf = (time: number): string => new Date(time).toISOString().slice(0, 10)

/** The bar of a day is as high as what it had was long: of most outages a share of the day would not be seen. */
const heights = [
  { belowSeconds: 60, height: '25%' },
  { belowSeconds: 600, height: '50%' },
  { belowSeconds: 3_600, height: '75%' },
  { belowSeconds: Infinity, height: '100%' },
]

/** What a day had, the worst first: that is what its bar shows. */
const describeDay = (date: string, had: readonly { readonly state: NetworkStatusJson['state']; readonly seconds: number }[]) => {
  const shown = had.filter(({ seconds }) => seconds > 0)
  const [{ state, seconds } = { state: 'degraded', seconds: 0 }] = shown
  return {
    date,
    tone: state === 'down' ? 'danger' : 'warn',
    height: heights.find(({ belowSeconds }) => seconds < belowSeconds)?.height,
    title: `${date}: ${shown.map(each => `${text.states[each.state]} ${text.for} ${formatLost(each.seconds)}`).join(', ')}`,
  }
}

/** To the second, what lasts would differ from its incident, which is counted further each second. */
const formatLost = (seconds: number): string => (seconds < 60 ? text.lessThanMinute : formatDuration(seconds * 1_000))

const dayOf = (date: string): number => Date.parse(date) / dayMs

/** As wide as `--step` of the strip: the last day ends at its right edge. */
const shareOfDays = (days: number): string => `calc(${days} * var(--step))`

const factsOf = (network: NetworkStatusJson) =>
  [
    [text.head, <NewestBlock key={text.head} {...network} />],
    [text.finalized, formatNumber(network.finalized)],
    [text.lag, formatLag(network.lagBlocks)],
    [
      text.nodes,
      network.state === 'unknown' && network.nodes > 0 ? `${formatNumber(network.nodes)}, ${text.notChecked}` : usableNodesOf(network),
    ],
    // As a wallet asks for it: without commas.
    [text.chainId, String(network.chainId)],
  ] as const

const formatLag = (blocks: number | null): string =>
  blocks === null ? '–' : `${formatNumber(blocks)} ${blocks === 1 ? text.block : text.blocks}`
