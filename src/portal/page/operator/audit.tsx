import { useSignal } from '@preact/signals'
import { now } from '../clock.ts'
import { Field, Notice, Select } from '../components/controls.tsx'
import { Pager, Table } from '../components/table.tsx'
import { saveCsv, saveJson } from '../download.ts'
import { formatTime } from '../format.ts'
import { get } from '../request.ts'
import { texts } from '../texts.ts'
import { useRequest } from '../use-request.ts'
import type { Change, ChangePage } from './operator-responses.ts'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.audit

const changesPerPage = 100

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

const cellsOf = (change: Change) => [
  change.time,
  change.by.kind,
  change.by.name,
  change.action,
  change.account.name,
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
        {found !== undefined && <Downloads month={month.value} read={first => get<ChangePage>(pathOf(first, maxChangesPerRead))} />}
      </div>
      <Notice text={page.error.value} />
      {found === undefined ? (
        page.error.value === undefined && <p>{texts.loading}</p>
      ) : found.changes.length === 0 ? (
        <p>{text.none}</p>
      ) : (
        <ChangeTable changes={found.changes} />
      )}
      <Pager offset={offset} size={changesPerPage} count={found?.changeCount ?? 0} />
    </>
  )
}

/** What the API returns at most. */
const maxChangesPerRead = 1_000

type ReadChanges = (first: number) => Promise<ChangePage>

const readAll = async (read: ReadChanges): Promise<readonly Change[]> => {
  const changes: Change[] = []
  for (;;) {
    const page = await read(changes.length)
    changes.push(...page.changes)
    if (page.changes.length === 0 || changes.length >= page.changeCount) return changes
  }
}

/** Of all changes that are found, on all pages. */
const Downloads = ({ month, read }: { readonly month: string; readonly read: ReadChanges }) => {
  const error = useSignal<string | undefined>(undefined)
  const download = (save: (changes: readonly Change[]) => void) =>
    void readAll(read).then(save, (reason: Error) => {
      error.value = reason.message
    })
  const titles = ['time', 'kind', 'by', 'action', 'account', 'target', 'change']
  return (
    <div class="buttons">
      <button type="button" onClick={() => download(changes => saveCsv(`changes-${month}`, titles, changes.map(cellsOf)))}>
        {texts.usage.download} CSV
      </button>
      <button type="button" onClick={() => download(changes => saveJson(`changes-${month}`, changes))}>
        {texts.usage.download} JSON
      </button>
      <Notice text={error.value} />
    </div>
  )
}

const ChangeTable = ({ changes }: { readonly changes: readonly Change[] }) => (
  <Table
    caption={operatorTexts.pages.audit}
    keyOf={change => cellsOf(change).join(' ')}
    rows={changes}
    columns={[
      { title: text.time, cell: change => formatTime(change.time) },
      { title: text.author, cell: ({ by }) => `${by.name} (${by.kind})` },
      { title: text.action, cell: change => <code>{change.action}</code> },
      { title: text.account, cell: change => change.account.name },
      { title: text.target, cell: change => change.target ?? '–' },
      { title: text.change, cell: formatChange },
    ]}
  />
)
