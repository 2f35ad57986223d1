import type { Change } from '../../../services/accounts/change-history.ts'
import type { ChangePage } from '../../queries/page-queries.ts'
import { Field, Select, WhenLoaded } from '../components/controls.tsx'
import { Downloads } from '../components/downloads.tsx'
import { EmptyState } from '../components/empty-state.tsx'
import { Pager, Table } from '../components/table.tsx'
import { formatAuthor, formatSeconds } from '../format.ts'
import { get, useRequest } from '../request.ts'
import { changeQuery, pagerOffset, queryMember } from '../router.ts'
import { texts } from '../texts.ts'
import { AccountLink, NodeLink } from './links.tsx'
import { session } from './operator-session.ts'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.audit

interface FoundChanges extends ChangePage {
  /** YYYY-MM, of the first day. */
  readonly month: string
}

const changesPerPage = 100

/** What the API returns at most. */
const maxChangesPerRead = 1_000

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
  const members = { account: queryMember('account'), by: queryMember('by'), action: queryMember('action'), search: queryMember('search') }
  const [from, to, first] = [queryMember('from'), queryMember('to'), queryMember('first', '0')]
  const pathOf = (offset: number, limit: number) => {
    const filters = Object.entries({ ...members, from, ...(from.value !== '' && { to }) }).flatMap(([name, { value }]) =>
      value.trim() === '' ? [] : [[name, value.trim()]],
    )
    return `/changes?${new URLSearchParams([...filters, ['offset', String(offset)], ['limit', String(limit)]])}`
  }
  const offset = pagerOffset(first)
  const page = useRequest<FoundChanges>(pathOf(offset.value, changesPerPage))
  const found = page.data.value
  /** All changes that are found, on all pages. */
  const readAll = async () => {
    const changes: Change[] = []
    for (;;) {
      const part = await get<FoundChanges>(pathOf(changes.length, maxChangesPerRead))
      changes.push(...part.changes)
      if (part.changes.length === 0 || changes.length >= part.changeCount) return { json: changes, rows: changes.map(cellsOf) }
    }
  }
  /** From the first page on. */
  const change = (name: string, value: string): void => changeQuery({ [name]: value, first: '' }, { isTyping: true })
  const typed = (name: keyof typeof members, label: string) => (
    <Field label={label}>
      {({ id }) => <input id={id} name={name} value={members[name].value} onInput={event => change(name, event.currentTarget.value)} />}
    </Field>
  )
  const day = (name: 'from' | 'to', { value }: { readonly value: string }, label: string) => (
    <Field label={label}>
      {({ id }) => <input id={id} name={name} type="date" value={value} onChange={event => change(name, event.currentTarget.value)} />}
    </Field>
  )
  return (
    <>
      <div class="controls">
        {typed('account', text.account)}
        {typed('by', text.author)}
        <Select
          label={text.action}
          options={[{ value: '', label: texts.all }, ...(session.value?.changeActions ?? [])]}
          value={members.action.value}
          onChange={value => changeQuery({ action: value, first: '' })}
        />
        {day('from', from, text.from)}
        {from.value !== '' && day('to', to, text.to)}
        {typed('search', text.filter)}
        {found !== undefined && <Downloads name={`changes-${found.month}`} titles={titles} read={readAll} />}
      </div>
      {from.value === '' && <p class="lead">{text.thisMonth}</p>}
      <WhenLoaded from={page}>
        {({ changes }) => (changes.length === 0 ? <EmptyState icon="audit" title={text.none} /> : <ChangeTable changes={changes} />)}
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
      { title: `${text.time} (UTC)`, isTime: true, cell: change => formatSeconds(change.time) },
      { title: text.author, cell: ({ by }) => <div class="breakable">{formatAuthor(by)}</div> },
      { title: text.action, cell: change => <code>{change.action}</code> },
      { title: text.account, cell: ({ account }) => (account === undefined ? '–' : <AccountLink {...account} />) },
      { title: text.target, cell: change => <Target change={change} /> },
      { title: text.change, cell: change => <div class="long-text">{breakLists(formatChange(change)) || '–'}</div> },
    ]}
  />
)

/** Ids are shorter; what is longer is the hash of a token, of which the page Access shows as much. */
const maxTargetChars = 40

/** A node has a page; what belongs to an account is on the account's. */
const Target = ({ change: { action, target } }: { readonly change: Change }) => {
  if (target === undefined) return '–'
  const [network = '', node] = target.split('/')
  return action.startsWith('node-') && node !== undefined ? (
    <NodeLink network={network} node={target} />
  ) : (
    <code class="breakable" title={target}>
      {target.length > maxTargetChars ? `…${target.slice(-4)}` : target}
    </code>
  )
}
