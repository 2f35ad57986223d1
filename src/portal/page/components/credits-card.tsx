import type { Balance } from '../../../services/account-reports.ts'
import { formatNumber } from '../format.ts'
import { texts } from '../texts.ts'
import { Bar, toneOfUse } from './figure.tsx'

const text = texts.overview

/** The credits that an account has left today. */
export const CreditsCard = ({ balance }: { readonly balance: Balance }) => {
  const { limit, left: unleased, used, held, forfeited } = balance
  // What gateways hold ready for the next calls is the account's too.
  const left = unleased === null ? null : unleased + held
  return (
    <section class="card wide" aria-label={text.left}>
      <h2>{text.left}</h2>
      {limit === null || left === null ? (
        <p class="error">{text.noLimit}</p>
      ) : (
        <>
          <p class="figure" data-testid="credits-left">
            {formatNumber(left)}
          </p>
          <Bar label={text.usedShare} value={used} max={limit} tone={toneOfUse(used, limit)} />
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
  )
}
