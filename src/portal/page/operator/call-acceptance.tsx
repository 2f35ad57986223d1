import type { AccountWithBalance } from '../../operations/account-operations.ts'
import type { ListedKeyJson } from '../../operations/key-operations.ts'
import { Badge } from '../components/badge.tsx'
import { usualCost } from '../components/figure.tsx'
import { formatCalls, formatHour, formatNumber, formatOutcome } from '../format.ts'
import { texts } from '../texts.ts'
import { formatFaults } from './format-figures.ts'
import { FailedCallsLink } from './links.tsx'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.acceptance

/** Calls with the key are refused until midnight UTC. */
export const isAtLimit = ({ state, dailyCredits, usedToday }: ListedKeyJson): boolean =>
  state === 'active' && dailyCredits !== null && dailyCredits - (usedToday ?? 0) < usualCost

interface CallAcceptanceProps {
  readonly account: AccountWithBalance
  readonly keys: readonly ListedKeyJson[]
}

/** What refuses calls of the account now, and what came of its last ones. */
export const CallAcceptance = ({ account, keys }: CallAcceptanceProps) => {
  const { name, state, balance, lastCalls } = account
  const refused = state === 'active' ? whyRefused(balance) : text.states[state]
  const keysAtLimit = keys.filter(isAtLimit).map(({ name: ofKey, hint }) => `${ofKey} …${hint}`.trim())
  return (
    <section class="card" aria-label={text.title}>
      <p>
        {refused !== '' ? <Badge tone="danger">{refused}</Badge> : <Badge tone="ok">{text.accepted}</Badge>}{' '}
        {keysAtLimit.length > 0 && (
          <>
            <Badge tone="warn">{text.keysAtLimit}</Badge> {keysAtLimit.join(', ')}.{' '}
          </>
        )}
        <LastCalls account={name} {...lastCalls} />
      </p>
    </section>
  )
}

/** Empty: they are accepted. */
const whyRefused = ({ left, held }: AccountWithBalance['balance']): string => {
  if (left === null) return text.noPlan
  return left + held < usualCost ? text.spent : ''
}

type LastCallsProps = AccountWithBalance['lastCalls'] & { readonly account: string }

const LastCalls = ({ account, from, calls, failures }: LastCallsProps) => {
  const countOf = (isByGateway: boolean): number =>
    failures.reduce((sum, each) => (each.byGateway === isByGateway ? sum + each.calls : sum), 0)
  return (
    <>
      {texts.since} {formatHour(from)}: {formatCalls(calls)}
      {failures.length > 0 && formatFaults({ byGateway: countOf(true), byCaller: countOf(false) })}
      {failures.map(({ outcome, calls: count }, i) => (
        <span key={outcome}>
          {i === 0 ? ': ' : ', '}
          <FailedCallsLink account={account} of={{ outcome }}>
            {formatOutcome(outcome)} {formatNumber(count)}
          </FailedCallsLink>
        </span>
      ))}
      .
    </>
  )
}
