import type { KeyJson } from '../../key-settings.ts'
import type { AccountRequestsJson } from '../../operations/request-operations.ts'
import { Select, WhenLoaded } from '../components/controls.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { Segments } from '../components/tabs.tsx'
import { useRequest } from '../request.ts'
import { queryMember, withQuery } from '../router.ts'
import { texts } from '../texts.ts'
import { PageLink } from './links.tsx'
import { operatorTexts } from './operator-texts.ts'
import { Labeled } from './labeled.tsx'
import { RequestTable, requestKindsWith } from './request-table.tsx'

const text = operatorTexts.accountUsage

export interface AccountRequestsProps {
  /** That of the account. */
  readonly path: string
  readonly keys: readonly KeyJson[]
}

/** What a customer means by "my calls fail": the last ones, and why, without their parameters. */
export const AccountRequests = ({ path, keys }: AccountRequestsProps) => {
  const [key, network, method] = [queryMember('key'), queryMember('network'), queryMember('method')]
  const outcome = queryMember('outcome', 'failed')
  const chosen = { key: key.value, network: network.value, method: method.value, outcome: outcome.value === 'all' ? '' : outcome.value }
  const query = Object.entries({ limit: '20', ...chosen }).filter(([, value]) => value !== '')
  const found = useRequest<AccountRequestsJson>(`${path}/requests?${new URLSearchParams(query)}`)
  // An outcome, a network or a method comes from a link.
  const linked = [network.value, method.value].filter(Boolean).join(', ')
  const names = keys.map(({ id, name, hint }) => ({ value: id, label: `${name} …${hint}`.trim() }))
  return (
    <>
      <div class="controls">
        <Labeled label={texts.usage.outcome}>
          <Segments label={texts.usage.outcome} options={requestKindsWith(outcome.value)} value={outcome.value} onChange={outcome.set} />
        </Labeled>
        <Select label={text.key} options={[{ value: '', label: texts.all }, ...names]} value={key.value} onChange={key.set} />
        {linked !== '' && (
          <p class="linked">
            {linked} <PageLink to={withQuery({ network: '', method: '' })}>{text.showAll}</PageLink>
          </p>
        )}
      </div>
      <WhenLoaded from={found} skeleton={<Skeleton height={10} />}>
        {({ isLogged, requests }) =>
          requests.length === 0 ? (
            <p class="lead">{isLogged ? text.noRequests : text.notLogged}</p>
          ) : (
            <RequestTable caption={text.views.requests} requests={requests} by={key.value === '' ? 'key' : undefined} />
          )
        }
      </WhenLoaded>
    </>
  )
}
