import { Fragment } from 'preact'
import { useEffect } from 'preact/hooks'
import type { AccountReport } from '../../routes/account.ts'
import type { NetworkJson } from '../../routes/networks.ts'
import type { AccountErrors, UsageAnswer } from '../../routes/usage.ts'
import { now } from '../clock.ts'
import { Banner } from '../components/banner.tsx'
import { Chart, failedSeries, groupColor } from '../components/chart.tsx'
import { WhenLoaded } from '../components/controls.tsx'
import { CreditsCard } from '../components/credits-card.tsx'
import { Bar, Figure } from '../components/figure.tsx'
import { Outcome } from '../components/request-facts.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import {
  formatDuration,
  formatEstimate,
  formatHour,
  formatLatency,
  formatMethod,
  formatNumber,
  formatOutcome,
  formatCalls,
  formatShare,
  formatSince,
  hourMs,
} from '../format.ts'
import { connectionProblem, useRequest } from '../request.ts'
import type { Loaded } from '../request.ts'
import { followLink, navigate } from '../router.ts'
import { Advice } from './advice.tsx'
import { developerTexts } from './developer-texts.ts'
import { needsForecast } from './account-banner.tsx'
import { account } from './developer-session.ts'
import { Endpoints } from './endpoints.tsx'
import { NoCalls } from './first-run.tsx'
import { isGuideOpen } from './tab-key.ts'
import { StateBadge } from '../components/network-state.tsx'
import { TextWithCode } from '../components/text-with-code.tsx'

const text = developerTexts.overview

export const Overview = () => {
  // Asked for beside the account, not after it.
  const usage = useRequest<UsageAnswer>('/usage?range=today&by=method&series=0')
  const networks = useRequest<readonly NetworkJson[]>('/networks')
  const current = account.value
  // Figures that are read and those that are sent are of the same moment, once calls pause.
  const used = current?.balance.used
  useEffect(() => {
    if (used === undefined) return undefined
    const timer = setTimeout(usage.reload, settledMs)
    return () => clearTimeout(timer)
  }, [used])
  if (current === undefined)
    // The whole page says why, and has it again by itself.
    return connectionProblem.value === undefined ? <OverviewSkeleton /> : null
  const hasCalls = current.balance.used > 0 || current.hours.some(({ calls }) => calls > 0)
  return (
    <>
      <FailingNetworks networks={networks} />
      <Credits account={current} />
      {hasCalls && !isGuideOpen.value ? (
        <LastDay account={current} usage={usage} networks={networks} />
      ) : (
        <NoCalls hasCalls={hasCalls} networks={networks} />
      )}
    </>
  )
}

/** Before anything else: it is not the caller's fault. */
const FailingNetworks = ({ networks }: Pick<LastDayProps, 'networks'>) => {
  const names = (networks.data.value ?? []).filter(({ state }) => state === 'down').map(({ name }) => name)
  return names.length === 0 ? null : (
    <Banner tone="danger" title={developerTexts.networks.someDown}>
      {names.join(', ')} ·{' '}
      <a href="/networks" onClick={followLink}>
        {developerTexts.networks.seeStates}
      </a>
    </Banner>
  )
}

/** Without a further call. */
const settledMs = 1_500

/** As large as what comes. */
const OverviewSkeleton = () => (
  <>
    <div class="card credits">
      <Skeleton height={9.5} />
      <Skeleton height={9.5} />
    </div>
    <div class="card">
      <Skeleton height={17.5} />
    </div>
  </>
)

const Credits = ({ account: report }: { readonly account: AccountReport }) => {
  const { balance, plan, hasOwnCredits, creditsPerHour, state } = report
  return (
    <CreditsCard
      balance={balance}
      isRefused={state !== 'active'}
      forecast={state !== 'active' ? text.noneUsed[state] : needsForecast(report) ? forecastOf(report) : undefined}
    >
      <div class="beside">
        <Figure label={text.rate} value={formatEstimate(creditsPerHour)} unit={developerTexts.credits.toLowerCase()} size="small" />
        {/* Calls that are refused for another reason are refused after the reset too. */}
        {state === 'active' && (
          <Figure
            label={text.reset}
            value={formatHour(balance.resetAt)}
            note={`${text.in} ${formatDuration(Date.parse(balance.resetAt) - now.value)}`}
            size="small"
            testId="reset"
          />
        )}
        <Figure
          label={text.plan}
          value={plan.name}
          note={
            plan.dailyCredits !== null && (
              <>
                {formatNumber(plan.dailyCredits)} {text.aDay}
                {hasOwnCredits && `, ${text.setForYou}`}
                {plan.forwarding && (
                  <>
                    <br />
                    {text.forwarding}
                  </>
                )}
              </>
            )
          }
          size="small"
        />
      </div>
    </CreditsCard>
  )
}

const forecastOf = ({ creditsPerHour, runsOutAt }: AccountReport): string => {
  if (creditsPerHour === 0) return text.noPace
  if (runsOutAt === null) return text.lasts
  return `${text.runsOut} ${formatHour(runsOutAt)}, ${text.in} ${formatDuration(Date.parse(runsOutAt) - now.value)}.`
}

interface LastDayProps {
  readonly account: AccountReport
  readonly usage: Loaded<UsageAnswer>
  readonly networks: Loaded<readonly NetworkJson[]>
}

/** Hours are whole: there are 23 of them, and what is over of this one. */
const sinceOf = ([first]: AccountReport['hours']): string => (first === undefined ? '' : formatSince(first.start))

/** The chart is of 24 hours. What stands below it is of the day that credits are counted by, of which few rows are read. */
const LastDay = ({ account: { hours, now }, usage, networks }: LastDayProps) => {
  const today = { from: `${now.slice(0, 10)}T00:00:00.000Z`, to: endOf(hours) }
  return (
    <>
      <CallsOfDay hours={hours} />
      {hours.some(({ failed }) => failed > 0) && <WhatFailed today={today} />}
      <div class="cards">
        <TopMethods usage={usage} today={today} />
        <NetworkStates networks={networks} />
      </div>
      {networks.data.value !== undefined && <Endpoints networks={networks.data.value} />}
    </>
  )
}

/** From midnight to the end of this hour, as other pages take it: they show hours of it. */
type Today = Readonly<Record<'from' | 'to', string>>

const linkToToday = (path: string, today: Today, more: Readonly<Record<string, string>> = {}): string =>
  `${path}?${new URLSearchParams({ ...more, ...today })}`

const endOf = (hours: AccountReport['hours']): string => new Date(Date.parse(hours.at(-1)?.start ?? '') + hourMs).toISOString()

const CallsOfDay = ({ hours }: Pick<AccountReport, 'hours'>) => {
  const failed = failedSeries(hours.map(each => each.failed))
  const calls = sumOf(hours.map(each => each.calls))
  const ok = { id: 'ok', name: text.successful, color: groupColor(0), points: hours.map(each => each.calls - each.failed) }
  return (
    <Chart
      title={`${text.callsByHour} ${sinceOf(hours)}`}
      note={`${formatCalls(calls)} · ${formatShare(calls - sumOf(failed.points), calls)}\u00a0${text.ofThemOk}`}
      times={hours.map(({ start }) => start)}
      end={endOf(hours)}
      series={failed.points.some(calls => calls !== 0) ? [failed, ok] : [ok]}
      onPickTime={(from, to) => navigate(`/usage?${new URLSearchParams({ from, to })}`)}
      onPickSeries={id => navigate(`/usage?${new URLSearchParams({ outcome: id })}`)}
    />
  )
}

const sumOf = (values: readonly (number | null)[]): number => values.reduce<number>((sum, value) => sum + (value ?? 0), 0)

/** The most frequent outcomes; the page Errors has the others. */
const maxOutcomes = 3
const maxMethods = 2

/** What went wrong, and what to do: whoever looks because calls fail finds it here. */
const WhatFailed = ({ today }: { readonly today: Today }) => {
  const errors = useRequest<AccountErrors>('/errors?range=today')
  return (
    <section class="card failures" aria-label={text.whatFailed}>
      <Heading title={text.whatFailed} path={linkToToday('/errors', today)} page={developerTexts.pages.errors} />
      <WhenLoaded from={errors} skeleton={<Skeleton lines={2} />}>
        {({ errors: found }) => (
          <ul class="ranking">
            {found.length === 0 && <li>{text.noneFailedToday}</li>}
            {found.slice(0, maxOutcomes).map(({ outcome, code, calls, methods, message, messages, advice }) => (
              <li key={outcome}>
                <Outcome shown={{ outcome, code, isSlow: false }} />
                <a href={linkToToday('/requests', today, { outcome })} onClick={followLink}>
                  {formatCalls(calls)}
                  <span class="unseen"> {formatOutcome(outcome)}</span>
                </a>
                <p class="said">
                  <TextWithCode text={messages[0]?.message ?? message} />
                </p>
                <p class="help">
                  {methods.slice(0, maxMethods).map(({ method, calls }) => (
                    <Fragment key={method}>
                      <code>{formatMethod(method)}</code>: {formatNumber(calls)} ·{' '}
                    </Fragment>
                  ))}
                  {methods.length > maxMethods && `${formatNumber(methods.length - maxMethods)} ${developerTexts.errors.moreMethods} · `}
                  <Advice text={advice} />
                </p>
              </li>
            ))}
          </ul>
        )}
      </WhenLoaded>
    </section>
  )
}

/** A card has room for so many lines. */
const maxLines = 5

const TopMethods = ({ usage, today }: Pick<LastDayProps, 'usage'> & { readonly today: Today }) => (
  <section class="card" aria-label={text.topMethods}>
    <Heading title={text.topMethods} path={linkToToday('/usage', today)} page={developerTexts.pages.usage} />
    <WhenLoaded from={usage} skeleton={<Skeleton lines={maxLines} />}>
      {({ groups, total: { calls, credits: max, p50Ms, p95Ms } }) =>
        calls === 0 ? (
          <p class="lead">{text.noCallsToday}</p>
        ) : (
          <>
            <ul class="ranking">
              {groups.slice(0, maxLines).map(({ name, credits }) => (
                <li key={name}>
                  <code>{formatMethod(name)}</code>
                  <span class="number">{formatNumber(credits)}</span>
                  <Bar label={`${formatMethod(name)}: ${developerTexts.usage.share}`} value={credits} max={Math.max(1, max)} isThin />
                </li>
              ))}
            </ul>
            <p class="help">
              {`${text.latency}: ${developerTexts.usage.p50} ${formatLatency(p50Ms)} · ${developerTexts.usage.p95} ${formatLatency(p95Ms)}`}
            </p>
          </>
        )
      }
    </WhenLoaded>
  </section>
)

const order = { down: 0, stalled: 1, degraded: 2, ok: 3, unknown: 4 } as const

const NetworkStates = ({ networks }: Pick<LastDayProps, 'networks'>) => (
  <section class="card" aria-label={developerTexts.pages.networks}>
    <Heading title={developerTexts.pages.networks} path="/networks" page={developerTexts.pages.networks} />
    <WhenLoaded from={networks} skeleton={<Skeleton lines={maxLines} />}>
      {found => (
        <ul class="ranking networks">
          {found
            .toSorted((a, b) => order[a.state] - order[b.state])
            .slice(0, maxLines)
            .map(({ name, state, head }) => (
              <li key={name}>
                <span>{name}</span>
                <span class="number">{head !== null && `${text.block} ${formatNumber(head)}`}</span>
                <StateBadge state={state} />
              </li>
            ))}
        </ul>
      )}
    </WhenLoaded>
  </section>
)

const Heading = ({ title, path, page }: { readonly title: string; readonly path: string; readonly page: string }) => (
  <div class="heading">
    <h2>{title}</h2>
    <a href={path} aria-label={`${developerTexts.showAll}: ${page}`} onClick={followLink}>
      {developerTexts.showAll}
    </a>
  </div>
)
