import { useSignal } from '@preact/signals'
import { now } from '../clock.ts'
import { Field, Notice, Select } from '../components/controls.tsx'
import { Pager } from '../components/pager.tsx'
import { Table } from '../components/table.tsx'
import { saveCsv, saveJson } from '../download.ts'
import { formatTime } from '../format.ts'
import { texts } from '../texts.ts'
import { useRequest } from '../use-request.ts'
import type { Change } from './operator-api.ts'
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
  const changes = useRequest<readonly Change[]>(`/changes?month=${month.value}`)
  const wanted = filter.value.trim().toLowerCase()
  const found = changes.data.value?.filter(change => cellsOf(change).join(' ').toLowerCase().includes(wanted)).reverse()
  return (
    <>
      <div class="controls">
        <Select label={text.month} options={months} value={month.value} onChange={value => (month.value = value)} />
        <Field label={text.filter}>
          {({ id }) => (
            <input
              id={id}
              name="filter"
              onInput={event => {
                filter.value = event.currentTarget.value
                offset.value = 0
              }}
            />
          )}
        </Field>
        {found !== undefined && <Downloads month={month.value} changes={found} />}
      </div>
      <Notice text={changes.error.value} />
      {found === undefined ? (
        changes.error.value === undefined && <p>{texts.loading}</p>
      ) : found.length === 0 ? (
        <p>{text.none}</p>
      ) : (
        <ChangeTable changes={found.slice(offset.value, offset.value + changesPerPage)} />
      )}
      <Pager offset={offset} size={changesPerPage} count={found?.length ?? 0} />
    </>
  )
}

const Downloads = ({ month, changes }: { readonly month: string; readonly changes: readonly Change[] }) => (
  <div class="buttons">
    <button
      type="button"
      onClick={() => saveCsv(`changes-${month}`, ['time', 'kind', 'by', 'action', 'account', 'target', 'change'], changes.map(cellsOf))}
    >
      {texts.usage.download} CSV
    </button>
    <button type="button" onClick={() => saveJson(`changes-${month}`, changes)}>
      {texts.usage.download} JSON
    </button>
  </div>
)

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
