import type { AccountReport } from '../../routes/account.ts'
import { now } from '../clock.ts'
import { Chart } from '../components/chart.tsx'
import { Notice } from '../components/controls.tsx'
import { CreditsCard } from '../components/credits-card.tsx'
import { formatDuration, formatHour, formatNumber } from '../format.ts'
import { followLink } from '../router.ts'
import { texts } from '../texts.ts'
import { account } from './developer-session.ts'

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

const LastDay = ({ account: { hours } }: { readonly account: AccountReport }) =>
  hours.every(({ calls }) => calls === 0) ? (
    <p>
      {text.noCalls}{' '}
      <a href="/keys" onClick={followLink}>
        {texts.keys.create}
      </a>
      , {text.then}{' '}
      <a href="/try-it" onClick={followLink}>
        {text.tryCall}
      </a>
      .
    </p>
  ) : (
    <Chart title={text.last24h} times={hours.map(({ start }) => start)} points={hours.map(({ calls }) => calls)} />
  )

const Cards = ({ account: { balance, plan, creditsPerHour, runsOutAt } }: { readonly account: AccountReport }) => {
  return (
    <div class="cards">
      <CreditsCard balance={balance} />
      <section class="card" aria-label={text.reset}>
        <h2>{text.reset}</h2>
        <p class="figure">{formatHour(balance.resetAt)}</p>
        <p>
          {text.resetIn} {formatDuration(Date.parse(balance.resetAt) - now.value)}
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
