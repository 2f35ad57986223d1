import { Fragment } from 'preact'
import type { KeyJson } from '../../key-settings.ts'
import { formatNumber } from '../format.ts'
import { texts } from '../texts.ts'

const text = texts.keys

/** The first of a long list: the rest is behind their number. */
const maxListed = 4

/** What the key may call, and who may use it. */
export const AllowedByKey = ({ apiKey }: { readonly apiKey: Pick<KeyJson, 'networks' | 'methods' | 'origins' | 'ips'> }) => {
  const lists = (['networks', 'methods', 'origins', 'ips'] as const).filter(name => apiKey[name].length > 0)
  if (lists.length === 0) return <span class="lead">{text.everything}</span>
  return (
    <dl class="allowed">
      {lists.map(name => (
        <div key={name}>
          <dt>{text.short[name]}</dt>
          <dd title={apiKey[name].join(', ')}>
            {apiKey[name].slice(0, maxListed).map((each, i) => (
              <Fragment key={each}>
                <span class="unbroken">
                  <Breakable text={each} />
                  {i < Math.min(maxListed, apiKey[name].length) - 1 && ','}
                </span>{' '}
              </Fragment>
            ))}
            {apiKey[name].length > maxListed && `${text.and} ${apiKey[name].length - maxListed} ${text.more}`}
          </dd>
        </div>
      ))}
    </dl>
  )
}

/** Broken after a slash or a point alone. */
const Breakable = ({ text: whole }: { readonly text: string }) => (
  <>
    {whole.split(/(?<=[/.])(?!\/)/).map((part, i) => (
      <Fragment key={i}>
        {i > 0 && <wbr />}
        {part}
      </Fragment>
    ))}
  </>
)

/** `at most 10 calls/s, burst 20`; empty where it has no rate. */
export const describeKeyRate = ({ rate, burst }: Pick<KeyJson, 'rate' | 'burst'>): string =>
  rate === null
    ? ''
    : `${text.atMost} ${rate.replace('/', ` ${texts.calls.toLowerCase()}/`)}${burst === null ? '' : `, ${text.burst.toLowerCase()} ${formatNumber(burst)}`}`
