import type { OperatorRequestJson } from '../../operations/request-operations.ts'
import { now } from '../clock.ts'
import { Outcome } from '../components/request-facts.tsx'
import { Table } from '../components/table.tsx'
import { formatClock, formatLatency, formatNode, formatOutcome } from '../format.ts'
import { texts } from '../texts.ts'
import { toneOfFault } from './format-figures.ts'
import { AccountLink, NetworkLink, NodeLink, RequestLink } from './links.tsx'
import { operatorTexts } from './operator-texts.ts'

/** What is asked for of logged requests; an address or a link may have one outcome alone. */
const requestKinds = (['failed', 'slow', 'all'] as const).map(value => ({ value, label: operatorTexts.requests.kinds[value] }))

/** Those above, and the one that is chosen. */
export const requestKindsWith = (chosen: string): readonly { readonly value: string; readonly label: string }[] =>
  requestKinds.some(({ value }) => value === chosen) ? requestKinds : [...requestKinds, { value: chosen, label: formatOutcome(chosen) }]

const columns = {
  account: {
    title: operatorTexts.requests.account,
    cell: ({ account }: OperatorRequestJson) => <AccountLink {...account} />,
  },
  key: {
    title: operatorTexts.accountUsage.key,
    cell: ({ key: { id, name, hint } }: OperatorRequestJson) => [name ?? id, ...(hint === null ? [] : [`…${hint}`])].join(' '),
  },
} as const

interface RequestTableProps {
  readonly caption: string
  readonly requests: readonly OperatorRequestJson[]
  /** Whose each is, where that is not the same for all. */
  readonly by?: keyof typeof columns | undefined
}

/** Logged requests without their parameters, and why each failed; of many accounts without the advice that the page of each has. */
export const RequestTable = ({ caption, requests, by }: RequestTableProps) => (
  <Table
    caption={caption}
    keyOf={({ id, account }) => `${account.id} ${id}`}
    rows={requests}
    columns={[
      { title: `${operatorTexts.audit.time} (UTC)`, isTime: true, cell: ({ time }) => formatClock(time, now.value) },
      ...(by === undefined ? [] : [columns[by]]),
      { title: texts.usage.network, cell: ({ network }) => <NetworkLink name={network} /> },
      { title: texts.usage.method, cell: ({ method }) => <code>{method}</code> },
      {
        title: texts.usage.outcome,
        cell: request => (
          <>
            <Outcome shown={request} toneOfFailure={toneOfFault(request)} />
            {request.message !== null && <p class="help">{request.message}</p>}
            {by !== 'account' && request.advice !== null && <p class="help">{request.advice}</p>}
          </>
        ),
      },
      { title: texts.requests.duration, isNumber: true, cell: ({ durationMs }) => formatLatency(durationMs) },
      {
        title: operatorTexts.nodes.upstream,
        cell: request =>
          request.upstream === null ? (
            formatNode(request)
          ) : (
            <span class="one-line">
              <NodeLink network={request.network} node={request.upstream} isShort />
            </span>
          ),
      },
      { title: texts.requests.requestId, cell: ({ requestId }) => <RequestLink id={requestId} isCut /> },
    ]}
  />
)
