import type { KeyJson } from '../../key-settings.ts'
import type { AccountRequestsJson, OperatorRequestJson } from '../../operations/request-operations.ts'
import { now } from '../clock.ts'
import { Select, WhenLoaded } from '../components/controls.tsx'
import { Outcome } from '../components/request-facts.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { Table } from '../components/table.tsx'
import { Segments } from '../components/tabs.tsx'
import { formatClock, formatLatency, formatOutcome } from '../format.ts'
import { useRequest } from '../request.ts'
import { queryMember, withQuery } from '../router.ts'
import { texts } from '../texts.ts'
import { toneOfFault } from './format-figures.ts'
import { NetworkLink, NodeLink, PageLink, RequestLink } from './links.tsx'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.accountUsage

/** `all` stands for any outcome, as no member of the address is the one that is chosen most. */
const kinds = (['failed', 'slow', 'all'] as const).map(value => ({ value, label: value === 'all' ? texts.all : formatOutcome(value) }))

const keyColumn = {
  title: text.key,
  cell: ({ key: { id, name, hint } }: OperatorRequestJson) => [name ?? id, ...(hint === null ? [] : [`…${hint}`])].join(' '),
}

interface AccountRequestsProps {
  /** That of the account. */
  readonly path: string
  readonly keys: readonly KeyJson[]
}

/** What a customer means by "my calls fail": the last ones, and why, without their parameters. */
export const AccountRequests = ({ path, keys }: AccountRequestsProps) => {
  const [key, network, method] = [queryMember('key'), queryMember('network'), queryMember('method')]
  const outcome = queryMember('outcome', 'failed')
  const isOne = !kinds.some(({ value }) => value === outcome.value)
  const chosen = { key: key.value, network: network.value, method: method.value, outcome: outcome.value === 'all' ? '' : outcome.value }
  const query = Object.entries({ limit: '20', ...chosen }).filter(([, value]) => value !== '')
  const found = useRequest<AccountRequestsJson>(`${path}/requests?${new URLSearchParams(query)}`)
  // An outcome, a network or a method comes from a link.
  const linked = [network.value, method.value].filter(Boolean).join(', ')
  const names = keys.map(({ id, name, hint }) => ({ value: id, label: `${name} …${hint}`.trim() }))
  return (
    <>
      <div class="controls">
        <Segments
          label={texts.usage.outcome}
          options={isOne ? [...kinds, { value: outcome.value, label: formatOutcome(outcome.value) }] : kinds}
          value={outcome.value}
          onChange={outcome.set}
        />
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
            <Table
              caption={text.views.requests}
              keyOf={({ id }) => id}
              rows={requests}
              columns={[
                { title: `${operatorTexts.audit.time} (UTC)`, isTime: true, cell: ({ time }) => formatClock(time, now.value) },
                ...(key.value === '' ? [keyColumn] : []),
                { title: texts.usage.network, cell: ({ network }) => <NetworkLink name={network} /> },
                { title: texts.usage.method, cell: ({ method }) => <code>{method}</code> },
                {
                  title: text.why,
                  cell: request => (
                    <>
                      <Outcome shown={request} toneOfFailure={toneOfFault(request)} />
                      {request.message !== null && <p class="help">{request.message}</p>}
                      {request.advice !== null && <p class="help">{request.advice}</p>}
                    </>
                  ),
                },
                { title: texts.requests.duration, isNumber: true, cell: ({ durationMs }) => formatLatency(durationMs) },
                {
                  title: operatorTexts.nodes.upstream,
                  cell: ({ network, upstream }) => (upstream === null ? '–' : <NodeLink network={network} node={upstream} />),
                },
                { title: texts.requests.requestId, cell: ({ requestId }) => <RequestLink id={requestId} /> },
              ]}
            />
          )
        }
      </WhenLoaded>
    </>
  )
}
