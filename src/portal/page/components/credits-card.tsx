import type { ComponentChildren } from 'preact'
import type { Balance } from '../../../services/account-reports.ts'
import { formatNumber } from '../format.ts'
import { texts } from '../texts.ts'
import { Bar, Figure, toneOfUse } from './figure.tsx'

const text = texts.overview

interface CreditsCardProps {
  readonly balance: Balance
  /** What else is known of them: how long they last. */
  readonly forecast?: ComponentChildren
  /** Calls are refused for another reason: how many are left is not what matters. */
  readonly isRefused?: boolean
  /** Beside them. */
  readonly children?: ComponentChildren
}

/** The credits that an account has left today. */
export const CreditsCard = ({ balance, forecast, isRefused = false, children }: CreditsCardProps) => {
  const { limit, left: unleased, used, held, forfeited } = balance
  if (limit === null || unleased === null) {
    return (
      <section class="card wide" aria-label={text.left}>
        <h2>{text.left}</h2>
        <p class="error">{text.noLimit}</p>
      </section>
    )
  }
  // What gateways hold ready for the next calls is the account's too.
  const left = unleased + held
  const tone = isRefused ? 'neutral' : toneOfUse(limit - left, limit)
  return (
    <section class={isRefused ? 'card wide credits unused' : 'card wide credits'} aria-label={text.left}>
      <div>
        <Figure
          label={text.left}
          value={formatNumber(left)}
          size="hero"
          tone={tone === 'danger' ? tone : 'neutral'}
          testId="credits-left"
        />
        <Bar label={text.usedShare} value={used} max={limit} tone={tone} />
        <p class="spread">
          <span data-testid="credits-used">
            {formatNumber(used)} {text.of} {formatNumber(limit)}
          </span>
          <span>
            {formatShare(used / limit)} {text.used}
          </span>
        </p>
        {forecast !== undefined && <p class="lead">{forecast}</p>}
        {forfeited > 0 && (
          <p class="help">
            {formatNumber(forfeited)} {text.forfeited}
          </p>
        )}
      </div>
      {children}
    </section>
  )
}

/** Rounded; 100 % is all of them. */
const formatShare = (share: number): string => `${share < 1 ? Math.min(99.9, Math.round(share * 1_000) / 10) : 100}\u00a0%`
