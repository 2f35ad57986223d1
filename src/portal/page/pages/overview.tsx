import type { Account } from '../api.ts'
import { Chart } from '../components/chart.tsx'
import { Notice } from '../components/controls.tsx'
import { formatDuration, formatHour, formatNumber } from '../format.ts'
import { account, now } from '../store.ts'
import { texts } from '../texts.ts'

const text = texts.overview

export const Overview = () => {
  const current = account.value
  return (
    <>
      {current?.suspended && <Notice text={text.suspended} />}
      {current === undefined ? <p>{texts.loading}</p> : <Cards account={current} />}
      {current !== undefined && <LastDay account={current} />}
    </>
  )
}

const LastDay = ({ account: { hours } }: { readonly account: Account }) =>
  hours.every(({ calls }) => calls === 0) ? (
    <p>{text.noCalls}</p>
  ) : (
    <Chart title={text.last24h} times={hours.map(({ start }) => start)} points={hours.map(({ calls }) => calls)} />
  )

const Cards = ({ account: { balance, plan, creditsPerHour, runsOutAt } }: { readonly account: Account }) => {
  const { limit, left: unleased, used, held, forfeited, resetAt } = balance
  // What gateways hold ready for the next calls is the account's too.
  const left = unleased === null ? null : unleased + held
  return (
    <div class="cards">
      <section class="card wide" aria-label={text.left}>
        <h2>{text.left}</h2>
        {limit === null || left === null ? (
          <p class="error">{text.noLimit}</p>
        ) : (
          <>
            <p class="figure" data-testid="credits-left">
              {formatNumber(left)}
            </p>
            <meter min={0} max={limit} value={left} low={limit * 0.15} high={limit * 0.25} optimum={limit} aria-label={text.left} />
            <p data-testid="credits-used">
              {formatNumber(used)} {text.used} {text.of} {formatNumber(limit)}
            </p>
            {forfeited > 0 && (
              <p class="help">
                {formatNumber(forfeited)} {text.forfeited}
              </p>
            )}
          </>
        )}
      </section>
      <section class="card" aria-label={text.reset}>
        <h2>{text.reset}</h2>
        <p class="figure">{formatHour(resetAt)}</p>
        <p>
          {text.resetIn} {formatDuration(Date.parse(resetAt) - now.value)}
        </p>
      </section>
      <section class="card" aria-label={text.rate}>
        <h2>{text.rate}</h2>
        <p class="figure">{formatNumber(creditsPerHour)}</p>
        <p>
          {text.runsOut}: {runsOutAt === null ? text.notToday : formatHour(runsOutAt)}
        </p>
      </section>
      <section class="card" aria-label={text.plan}>
        <h2>{text.plan}</h2>
        <p class="figure">{plan.name}</p>
        {plan.dailyCredits !== null && (
          <p>
            {formatNumber(plan.dailyCredits)} {text.perDay}
          </p>
        )}
        {plan.forwarding && <p class="help">{text.forwarding}</p>}
      </section>
    </div>
  )
}
