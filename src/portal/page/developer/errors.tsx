import type { ErrorCount, UsageAnswer } from '../../routes/usage.ts'
import { maxGroups } from '../components/chart.tsx'
import { WhenLoaded } from '../components/controls.tsx'
import { EmptyState } from '../components/empty-state.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { Table } from '../components/table.tsx'
import { formatNumber } from '../format.ts'
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
            <>
              {usage.data.value !== undefined && (
                <UsageChart report={usage.data.value} measure="calls" title={text.overTime} nameOf={({ name }) => name} />
              )}
              <ErrorTable errors={found} />
            </>
          )
        }
      </WhenLoaded>
    </>
  )
}

/** All that failed, unless one outcome was chosen. */
const failedUsage = (): string =>
  rangeAndFilters({ by: 'outcome', series: String(maxGroups), outcome: query.value.get('outcome') ?? 'failed' })

const ErrorTable = ({ errors }: { readonly errors: readonly ErrorCount[] }) => (
  <Table
    caption={texts.pages.errors}
    keyOf={row => row.outcome}
    rows={errors}
    columns={[
      { title: text.message, cell: row => <span class="row-name">{row.message}</span> },
      { title: text.code, cell: row => <code>{row.code ?? '–'}</code> },
      { title: texts.usage.outcome, cell: row => <FilterButton dimension="outcome" value={row.outcome} /> },
      { title: text.calls, isNumber: true, cell: row => formatNumber(row.calls) },
      { title: text.advice, cell: row => row.advice },
      {
        title: texts.keys.actions,
        cell: row => (
          <a
            class="one-line"
            href={linkWithFilters('/requests', { outcome: row.outcome })}
            onClick={followLink}
            aria-label={`${text.showRequests}: ${row.outcome}`}
          >
            {text.showRequests}
          </a>
        ),
      },
    ]}
  />
)
