import { useSignal } from '@preact/signals'
import type { ErrorCount, AccountErrors, UsageAnswer } from '../../routes/usage.ts'
import { now } from '../clock.ts'
import { maxGroups } from '../components/chart.tsx'
import { WhenLoaded, WhileRead } from '../components/controls.tsx'
import { Dialog } from '../components/dialog.tsx'
import { EmptyState } from '../components/empty-state.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { Table } from '../components/table.tsx'
import { TextWithCode } from '../components/text-with-code.tsx'
import { formatCalls, formatClock, formatMethod, formatMoment, formatNumber, formatOutcome, formatPercent } from '../format.ts'
import { useRequest } from '../request.ts'
import { changeQuery, followLink, query } from '../router.ts'
import { Advice } from './advice.tsx'
import { developerTexts } from './developer-texts.ts'
import { FilterButton, FilterChips, FilterSelect, RangePicker, linkWithFilters, rangeAndFilters } from './filters.tsx'
import { useKeyNames } from './key-names.ts'
import { UsageChart } from './usage.tsx'

const text = developerTexts.errors

export const Errors = () => {
  const errors = useRequest<AccountErrors>(`/errors?${rangeAndFilters()}`)
  const usage = useRequest<UsageAnswer>(`/usage?${failedUsage()}`)
  const keys = useKeyNames()
  const { methods = [], networks = [], keys: keyIds = [] } = errors.data.value ?? {}
  return (
    <>
      <div class="controls pairs">
        <FilterSelect dimension="method" values={methods} nameOf={formatMethod} />
        <FilterSelect dimension="network" values={networks} />
        <FilterSelect dimension="key" values={keyIds} nameOf={keys.nameOf} />
        <RangePicker />
      </div>
      <FilterChips of={['outcome']} nameOfKey={keys.nameOf} />
      <WhenLoaded from={errors} skeleton={<Skeleton height={24} />}>
        {found =>
          found.errors.length === 0 ? (
            <EmptyState icon="check" title={text.none} />
          ) : (
            <WhileRead from={errors}>
              {usage.data.value !== undefined && (
                <UsageChart report={usage.data.value} measure="calls" title={text.overTime} nameOf={({ name }) => formatOutcome(name)} />
              )}
              <p class="lead">{describeShare(found)}</p>
              <ErrorTable errors={found.errors} nameOfKey={keys.nameOf} />
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

/** `6 failed of 1,234 calls (0.49 %).` */
const describeShare = ({ calls, errors }: AccountErrors): string => {
  const failed = errors.reduce((sum, each) => sum + each.calls, 0)
  return `${formatNumber(failed)} ${text.failedOf} ${formatCalls(calls)} (${formatPercent((100 * failed) / Math.max(1, calls), 2)}).`
}

interface OutcomeTableProps {
  readonly errors: readonly ErrorCount[]
  nameOfKey(id: string): string
}

const ErrorTable = ({ errors, nameOfKey }: OutcomeTableProps) => {
  const shown = errors.find(({ outcome }) => outcome === query.value.get('messages'))
  return (
    <>
      <Table
        caption={developerTexts.pages.errors}
        keyOf={row => row.outcome}
        rows={errors}
        columns={[
          {
            title: developerTexts.usage.outcome,
            cell: row => <FilterButton dimension="outcome" value={row.outcome} name={formatOutcome(row.outcome, row.code)} />,
          },
          {
            title: developerTexts.calls,
            isNumber: true,
            cell: row => (
              <a
                href={linkWithFilters('/requests', { outcome: row.outcome })}
                title={text.showRequests}
                aria-label={`${formatCalls(row.calls)}. ${text.showRequests}: ${formatOutcome(row.outcome)}`}
                onClick={followLink}
              >
                {formatNumber(row.calls)}
              </a>
            ),
          },
          { title: text.methods, cell: row => <Methods error={row} /> },
          { title: text.messages, cell: row => <Messages error={row} nameOfKey={nameOfKey} /> },
          { title: text.advice, cell: row => <Advice text={row.advice} /> },
        ]}
      />
      {shown !== undefined && <AllMessages error={shown} nameOfKey={nameOfKey} onClose={() => changeQuery({ messages: '' })} />}
    </>
  )
}

/** A cell has room for so many. */
const maxMethods = 4

/** Of all failed calls, not of those alone that are logged. */
const Methods = ({ error: { methods } }: Pick<MessagesProps, 'error'>) => {
  const isAll = useSignal(false)
  const shown = isAll.value ? methods : methods.slice(0, maxMethods)
  return (
    <ul class="counts">
      {shown.map(({ method, calls }) => (
        <li key={method} class="one-line">
          <FilterButton dimension="method" value={method} name={formatMethod(method)} /> <span class="number">{formatNumber(calls)}</span>
        </li>
      ))}
      {shown.length < methods.length && (
        <li>
          <button type="button" class="link" onClick={() => (isAll.value = true)}>
            {formatNumber(methods.length - shown.length)} {text.more}
          </button>
        </li>
      )}
    </ul>
  )
}

interface MessagesProps {
  readonly error: ErrorCount
  nameOfKey(id: string): string
}

/** The most frequent ones that are logged, or else what the outcome means. */
const Messages = ({ error, nameOfKey }: MessagesProps) => {
  const { outcome, message, messages, messageCount, loggedRequests } = error
  if (messages.length === 0)
    return (
      <span class="row-name">
        <TextWithCode text={message} />
      </span>
    )
  return (
    <>
      {messages.map(told => (
        <div key={`${told.message} ${told.method}`} class="message">
          <a class="row-name" href={linkToRequests(outcome, told)} onClick={followLink}>
            <TextWithCode text={told.message} />
          </a>
          <p class="help">
            {formatNumber(told.requests)} {developerTexts.of} {formatNumber(loggedRequests)} {text.loggedRequests} ·{' '}
            <code>{told.method}</code> {text.on} {formatCounts(told.networks)} · {formatCounts(told.keys, nameOfKey)} · {text.lastSeen}{' '}
            {formatMoment(told.lastSeen, now.value)}
          </p>
        </div>
      ))}
      {loggedRequests < error.calls && (
        <p class="help message">
          {formatNumber(loggedRequests)} {developerTexts.of} {formatNumber(error.calls)} {text.ofCalls}
        </p>
      )}
      {messages.length < messageCount && (
        <button
          type="button"
          class="link"
          aria-label={`${text.showMessages} ${formatNumber(messageCount)}: ${formatOutcome(outcome)}`}
          onClick={() => changeQuery({ messages: outcome })}
        >
          {text.showMessages} {formatNumber(messageCount)}
        </button>
      )}
    </>
  )
}

type LoggedMessage = ErrorCount['messages'][number]

/** Those of the filters that have it. */
const linkToRequests = (outcome: string, { method, message }: LoggedMessage): string =>
  `${linkWithFilters('/requests', { outcome, method })}&${new URLSearchParams({ search: message })}`

/** A line has room for so many. */
const maxCounts = 3

/** `base-mainnet`; of several, how many logged requests each has: `indexer …7maA 98, web …RgoF 30, and 2 more`. */
const formatCounts = (counts: LoggedMessage['keys'], nameOf = (name: string): string => name): string =>
  [
    ...counts
      .slice(0, maxCounts)
      .map(({ name, requests }) => (counts.length === 1 ? nameOf(name) : `${nameOf(name)} ${formatNumber(requests)}`)),
    ...(counts.length > maxCounts ? [`${developerTexts.keys.and} ${counts.length - maxCounts} ${text.more}`] : []),
  ].join(', ')

/** As many as the API lists. */
const maxMessages = 200

const AllMessages = ({ error: { outcome }, nameOfKey, onClose }: MessagesProps & { onClose(): void }) => (
  <Dialog title={`${text.messagesOf} ${formatOutcome(outcome)}`} isWide onClose={onClose}>
    <WhenLoaded from={useRequest<AccountErrors>(`/errors?${rangeAndFilters({ outcome, messages: String(maxMessages) })}`)}>
      {({ errors: [found] }) =>
        found !== undefined && (
          <>
            <p class="help">
              {formatNumber(found.messageCount)} {text.byMethod} · {formatNumber(found.loggedRequests)} {text.loggedRequests}{' '}
              {developerTexts.of} {formatCalls(found.calls)}. {found.messages.length < found.messageCount && text.mostFrequent}
            </p>
            <Table
              caption={text.messages}
              keyOf={row => `${row.message} ${row.method}`}
              rows={found.messages}
              columns={[
                {
                  title: text.message,
                  cell: row => (
                    <a class="row-name" href={linkToRequests(outcome, row)} onClick={followLink}>
                      <TextWithCode text={row.message} />
                    </a>
                  ),
                },
                { title: developerTexts.usage.method, cell: row => <code>{row.method}</code> },
                { title: developerTexts.usage.network, cell: row => formatCounts(row.networks) },
                { title: developerTexts.usage.key, cell: row => formatCounts(row.keys, nameOfKey) },
                { title: text.logged, isNumber: true, cell: row => formatNumber(row.requests) },
                { title: text.lastSeenTitle, isTime: true, cell: row => formatClock(row.lastSeen, now.value) },
              ]}
            />
          </>
        )
      }
    </WhenLoaded>
  </Dialog>
)
