import type { ErrorCount, UsageAnswer } from '../../routes/usage.ts'
import { now } from '../clock.ts'
import { maxGroups } from '../components/chart.tsx'
import { WhenLoaded, WhileRead } from '../components/controls.tsx'
import { EmptyState } from '../components/empty-state.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { Table } from '../components/table.tsx'
import { formatMoment, formatNumber, formatOutcome } from '../format.ts'
import { useRequest } from '../request.ts'
import { followLink, query } from '../router.ts'
import { texts } from '../texts.ts'
import { FilterButton, FilterChips, RangePicker, linkWithFilters, rangeAndFilters, useKeyNames } from './filters.tsx'
import { UsageChart } from './usage.tsx'

const text = texts.errors

export const Errors = () => {
  const errors = useRequest<readonly ErrorCount[]>(`/errors?${rangeAndFilters()}`)
  const usage = useRequest<UsageAnswer>(`/usage?${failedUsage()}`)
  const keys = useKeyNames()
  return (
    <>
      <div class="controls">
        <RangePicker />
      </div>
      <FilterChips nameOfKey={keys.nameOf} />
      <WhenLoaded from={errors} skeleton={<Skeleton height={24} />}>
        {found =>
          found.length === 0 ? (
            <EmptyState icon="check" title={text.none} />
          ) : (
            <WhileRead from={errors}>
              {usage.data.value !== undefined && (
                <UsageChart report={usage.data.value} measure="calls" title={text.overTime} nameOf={({ name }) => formatOutcome(name)} />
              )}
              <ErrorTable errors={found} nameOfKey={keys.nameOf} />
            </WhileRead>
          )
        }
      </WhenLoaded>
    </>
  )
}

/** All that failed, unless one outcome was chosen. */
const failedUsage = (): string =>
  rangeAndFilters({ by: 'outcome', series: String(maxGroups), outcome: query.value.get('outcome') ?? 'failed' })

interface OutcomeTableProps {
  readonly errors: readonly ErrorCount[]
  nameOfKey(id: string): string
}

const ErrorTable = ({ errors, nameOfKey }: OutcomeTableProps) => (
  <Table
    caption={texts.pages.errors}
    keyOf={row => row.outcome}
    rows={errors}
    columns={[
      {
        title: texts.usage.outcome,
        cell: row => <FilterButton dimension="outcome" value={row.outcome} name={formatOutcome(row.outcome, row.code)} />,
      },
      { title: text.calls, isNumber: true, cell: row => formatNumber(row.calls) },
      { title: text.message, cell: row => <Messages error={row} nameOfKey={nameOfKey} /> },
      { title: text.advice, cell: row => row.advice },
      {
        title: texts.keys.actions,
        cell: row => (
          <a
            class="one-line"
            href={linkWithFilters('/requests', { outcome: row.outcome })}
            onClick={followLink}
            aria-label={`${text.showRequests}: ${formatOutcome(row.outcome)}`}
          >
            {text.showRequests}
          </a>
        ),
      },
    ]}
  />
)

interface MessagesProps {
  readonly error: ErrorCount
  nameOfKey(id: string): string
}

/** The most frequent ones that are logged, or else what the outcome means. */
const Messages = ({ error: { message, messages }, nameOfKey }: MessagesProps) =>
  messages.length === 0 ? (
    <span class="row-name">{message}</span>
  ) : (
    messages.map(told => (
      <div key={`${told.message} ${told.method} ${told.key}`} class="message">
        <span class="row-name">{told.message}</span>
        <p class="help">
          <code>{told.method}</code> · {nameOfKey(told.key)} · {text.lastSeen} {formatMoment(told.lastSeen, now.value)}
        </p>
      </div>
    ))
  )
