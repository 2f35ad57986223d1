import { useSignal } from '@preact/signals'
import type { Change } from '../../../services/accounts/change-history.ts'
import type { ChangePage } from '../../queries/page-queries.ts'
import { now } from '../clock.ts'
import { Field, Select, WhenLoaded } from '../components/controls.tsx'
import { Downloads } from '../components/downloads.tsx'
import { Pager, Table } from '../components/table.tsx'
import { formatTime } from '../format.ts'
import { get, useRequest } from '../request.ts'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.audit

const changesPerPage = 100

/** What the API returns at most. */
const maxChangesPerRead = 1_000

/** Changes are kept for 400 days. */
const maxShownMonths = 13

/** YYYY-MM, the current month first. */
const monthsBefore = (time: number): readonly string[] => {
  const today = new Date(time)
  return Array.from({ length: maxShownMonths }, (_, i) =>
    new Date(Date.UTC(today.getUTCFullYear(), today.getUTCMonth() - i, 1)).toISOString().slice(0, 7),
  )
}

const formatMembers = (members: Change['after'] = {}): string =>
  Object.entries(members)
    .map(([name, value]) => `${name}: ${value === null ? '–' : JSON.stringify(value)}`)
    .join(', ')

const formatChange = ({ before, after }: Change): string =>
  [before, after]
    .filter(members => members !== undefined)
    .map(formatMembers)
    .join(' → ')

const titles = ['time', 'kind', 'by', 'action', 'account', 'target', 'change']

const cellsOf = (change: Change) => [
  change.time,
  change.by.kind,
  change.by.name,
  change.action,
  change.account?.name ?? '',
  change.target ?? '',
  formatChange(change),
]

export const Audit = () => {
  const months = monthsBefore(now.value)
  const month = useSignal(months[0] ?? '')
  const filter = useSignal('')
  const offset = useSignal(0)
  const pathOf = (first: number, limit: number) => {
    const query = { month: month.value, search: filter.value.trim(), offset: String(first), limit: String(limit) }
    return `/changes?${new URLSearchParams(query)}`
  }
  const page = useRequest<ChangePage>(pathOf(offset.value, changesPerPage))
  const found = page.data.value
  /** All changes that are found, on all pages. */
  const readAll = async () => {
    const changes: Change[] = []
    for (;;) {
      const part = await get<ChangePage>(pathOf(changes.length, maxChangesPerRead))
      changes.push(...part.changes)
      if (part.changes.length === 0 || changes.length >= part.changeCount) return { json: changes, rows: changes.map(cellsOf) }
    }
  }
  const choose = (signal: typeof month) => (value: string) => {
    signal.value = value
    offset.value = 0
  }
  return (
    <>
      <div class="controls">
        <Select label={text.month} options={months} value={month.value} onChange={choose(month)} />
        <Field label={text.filter}>
          {({ id }) => <input id={id} name="filter" onInput={event => choose(filter)(event.currentTarget.value)} />}
        </Field>
        {found !== undefined && <Downloads name={`changes-${month.value}`} titles={titles} read={readAll} />}
      </div>
      <WhenLoaded from={page}>
        {({ changes }) => (changes.length === 0 ? <p>{text.none}</p> : <ChangeTable changes={changes} />)}
      </WhenLoaded>
      <Pager offset={offset} size={changesPerPage} count={found?.changeCount ?? 0} />
    </>
  )
}

/** Lines end between the entries of a list, not within one. */
const breakLists = (text: string): string => text.replaceAll('","', '", "')

const ChangeTable = ({ changes }: { readonly changes: readonly Change[] }) => (
  <Table
    caption={operatorTexts.pages.audit}
    keyOf={change => cellsOf(change).join(' ')}
    rows={changes}
    columns={[
      { title: text.time, isTime: true, cell: change => formatTime(change.time) },
      { title: text.author, cell: ({ by }) => `${by.name} (${by.kind})` },
      { title: text.action, cell: change => <code>{change.action}</code> },
      { title: text.account, cell: change => change.account?.name ?? '–' },
      { title: text.target, cell: change => change.target ?? '–' },
      { title: text.change, cell: change => <div class="long-text">{breakLists(formatChange(change))}</div> },
    ]}
  />
)
