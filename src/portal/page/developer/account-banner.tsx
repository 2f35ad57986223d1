import type { AccountReport } from '../../routes/account.ts'
import { now } from '../clock.ts'
import { Banner } from '../components/banner.tsx'
import { usualCost } from '../components/figure.tsx'
import { ContactSupport, ExternalLink } from '../components/shell.tsx'
import { formatDuration, formatHour, formatNumber, formatRefusal, formatTime } from '../format.ts'
import { followLink, path } from '../router.ts'
import { developerTexts } from './developer-texts.ts'
import { account, session } from './developer-session.ts'

const text = developerTexts.banner

/** Percent from which on the page warns: the first threshold of alerts, unless they are changed. */
const warningPercent = 75

/** The credits that calls may still use: those that gateways hold ready for the next calls are the account's too. */
const leftOf = ({ left, held }: AccountReport['balance']): number | undefined => (left === null ? undefined : left + held)

/** The percent that were used, where that is so many that the page warns; undefined where it is not, or where nothing is left. */
const nearLimitPercent = ({ balance }: AccountReport): number | undefined => {
  const [{ limit }, left] = [balance, leftOf(balance)]
  if (limit === null || left === undefined || left < usualCost) return undefined
  const percent = Math.floor((100 * (limit - left)) / limit)
  return percent >= warningPercent ? percent : undefined
}

/** Whether it must be said how long the credits of an active account last: the banner does where they run short. */
export const needsForecast = (report: AccountReport): boolean =>
  (leftOf(report.balance) ?? usualCost) >= usualCost && nearLimitPercent(report) === undefined

/** What the account must know, on whatever page it is: that its calls are refused. On the Overview, that they will be. */
export const AccountBanner = ({ isOverview }: { readonly isOverview: boolean }) => {
  const current = account.value
  if (current === undefined) return null
  const { refusals } = current
  const refused = current.state === 'active' ? '' : `${text[current.state]} (${formatRefusal(refusals.key)}).`
  if (current.state === 'deleted') return <DeletedBanner title={refused} deleteAt={current.deleteAt} />
  if (current.state !== 'active')
    return (
      <Banner tone="danger" title={refused}>
        {current.suspensionReason !== null && `${text.reason} ${current.suspensionReason.replace(/[.!?]?$/, '.')} `}
        {developerTexts.since} {formatTime(current.suspended)}. <Billing url={current.billingUrl} />
        <ContactSupport />
      </Banner>
    )
  const { limit, resetAt } = current.balance
  const left = leftOf(current.balance)
  if (limit === null || left === undefined) return <Banner tone="danger" title={developerTexts.overview.noLimit} />
  const untilReset = `${formatHour(resetAt)}, ${text.in} ${formatDuration(Date.parse(resetAt) - now.value)}`
  if (left < usualCost) {
    return (
      <Banner tone="danger" title={text.spent}>
        {text.refused} {untilReset} ({formatRefusal(refusals.spent)}). {left > 0 && `${text.rest} ${formatNumber(left)}.`}{' '}
        {path.value !== '/usage' && (
          <>
            <a href="/usage?of=credits" onClick={followLink}>
              {text.why}
            </a>
            {' · '}
          </>
        )}
        <Billing url={current.billingUrl} />
        {path.value !== '/plan' && <GetMore />}
      </Banner>
    )
  }
  const percent = nearLimitPercent(current)
  if (!isOverview || percent === undefined) return null
  const { runsOutAt } = current
  return (
    <Banner tone="warn" title={`${percent} % ${text.used}`}>
      {runsOutAt === null
        ? `${text.lasts} ${untilReset}.`
        : `${text.runsOut} ${formatHour(runsOutAt)}, ${text.in} ${formatDuration(Date.parse(runsOutAt) - now.value)}; ${text.then} ${formatHour(resetAt)}.`}{' '}
      <GetMore />
    </Banner>
  )
}

const Billing = ({ url }: { readonly url: string | null }) =>
  url === null ? null : (
    <>
      <ExternalLink href={url}>{developerTexts.plan.invoices}</ExternalLink>
      {' · '}
    </>
  )

/** The page says which plans there are, and whom to ask. */
const GetMore = () => (
  <a href="/plan" onClick={followLink}>
    {text.getMore}
  </a>
)

const DeletedBanner = ({ title, deleteAt }: Pick<AccountReport, 'deleteAt'> & { readonly title: string }) => (
  <Banner tone="danger" title={title}>
    {text.removedAt} {formatTime(deleteAt)}.{' '}
    {session.value?.person.role === 'owner' && (
      <a href="/settings" onClick={followLink}>
        {text.undo}
      </a>
    )}
  </Banner>
)
