import type { Change } from '../../../services/accounts/change-history.ts'
import type { NamedChange } from '../../operations/change-operations.ts'
import { now } from '../clock.ts'
import { ChangeDetails, describeAction } from '../components/change-details.tsx'
import { Field, Select, WhenLoaded } from '../components/controls.tsx'
import { Downloads } from '../components/downloads.tsx'
import { EmptyState } from '../components/empty-state.tsx'
import { Pager, Table } from '../components/table.tsx'
import { formatSeconds, hourMs } from '../format.ts'
import { get, useRequest } from '../request.ts'
import { changeQuery, pagerOffset, queryMember } from '../router.ts'
import { texts } from '../texts.ts'
import { AccountLink, KeyLink, NodeLink } from './links.tsx'
import { session } from './operator-session.ts'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.audit

interface FoundChanges {
  /** YYYY-MM, of the first day. */
  readonly month: string
  readonly changes: readonly NamedChange[]
  /** All that were found. */
  readonly changeCount: number
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
  const periods = periodsOf(now.value)
  const period = periods.find(each => each.from === from.value && each.to === to.value)?.value ?? 'other'
  const choosePeriod = (chosen: string): void => {
    const { from: first = '', to: last = '' } = periods.find(({ value }) => value === chosen) ?? { from: dayBefore(now.value, 1) }
    changeQuery({ from: first, to: last, first: '' })
  }
  return (
    <>
      <div class="controls">
        {typed('account', text.account)}
        {typed('by', text.author)}
        <Select
          label={text.action}
          options={[
            { value: '', label: texts.all },
            ...(session.value?.changeActions ?? []).map(value => ({ value, label: describeAction(value) })),
          ]}
          value={members.action.value}
          onChange={value => changeQuery({ action: value, first: '' })}
        />
        <Select
          label={text.period}
          options={[...periods, { value: 'other', label: text.periods.other }]}
          value={period}
          onChange={choosePeriod}
        />
        {period === 'other' && day('from', from, text.from)}
        {period === 'other' && day('to', to, text.to)}
        {typed('search', text.filter)}
        {found !== undefined && <Downloads name={`changes-${found.month}`} titles={titles} read={readAll} />}
      </div>
      <WhenLoaded from={page}>
        {({ changes }) => (changes.length === 0 ? <EmptyState icon="audit" title={text.none} /> : <ChangeTable changes={changes} />)}
      </WhenLoaded>
      <Pager offset={offset} size={changesPerPage} count={found?.changeCount ?? 0} />
    </>
  )
}

/** YYYY-MM-DD, of so many days ago. */
const dayBefore = (time: number, days: number): string => new Date(time - days * 24 * hourMs).toISOString().slice(0, 10)

/** The month is what the API has without days. */
const periodsOf = (time: number) => {
  const [today, yesterday] = [dayBefore(time, 0), dayBefore(time, 1)]
  return [
    { value: 'month', label: text.periods.month, from: '', to: '' },
    { value: 'today', label: text.periods.today, from: today, to: today },
    { value: 'yesterday', label: text.periods.yesterday, from: yesterday, to: yesterday },
    { value: 'week', label: text.periods.week, from: dayBefore(time, 6), to: today },
  ]
}

const ChangeTable = ({ changes }: { readonly changes: readonly NamedChange[] }) => (
  <Table
    caption={operatorTexts.pages.audit}
    keyOf={change => cellsOf(change).join(' ')}
    rows={changes}
    columns={[
      { title: `${text.time} (UTC)`, isTime: true, cell: change => <span class="one-line">{formatSeconds(change.time)}</span> },
      { title: text.author, cell: ({ by }) => <Author by={by} /> },
      {
        title: text.action,
        cell: ({ action }) => (
          <span class="one-line" title={action}>
            {describeAction(action)}
          </span>
        ),
      },
      { title: text.account, cell: ({ account }) => (account === undefined ? '–' : <AccountLink {...account} />) },
      { title: text.target, cell: change => <Target change={change} /> },
      { title: text.change, cell: change => <ChangeDetails change={change} isTargetShown /> },
    ]}
  />
)

/** The name of a person has their id at its end. */
const Author = ({ by: { kind, name } }: Pick<Change, 'by'>) => {
  const [, person = name, id] = /^(.*) \((usr_.*)\)$/.exec(name) ?? []
  return (
    <span title={id}>
      <span class="breakable">{person}</span>
      <span class="line since one-line">{text.authors[kind]}</span>
    </span>
  )
}

/** Ids are not broken. */
const maxIdChars = 28

/** Ids are shorter; what is longer is the hash of a token, of which the page Access shows as much. */
const maxTargetChars = 40

/** A node has a page; what belongs to an account is on the account's. */
const Target = ({ change: { action, target, targetName, account, before, after } }: { readonly change: NamedChange }) => {
  if (target === undefined) return '–'
  const [network = '', node] = target.split('/')
  if (account !== undefined && action.startsWith('key-'))
    return (
      <span title={target}>
        <KeyLink account={account.name} id={target} name={targetName ?? target} />
      </span>
    )
  const person = after?.['name'] ?? before?.['name']
  if (account !== undefined && typeof person === 'string' && /^(usr|inv)_/.test(target))
    return (
      <span title={target}>
        <AccountLink name={account.name}>{person}</AccountLink>
      </span>
    )
  return action.startsWith('node-') && node !== undefined ? (
    <NodeLink network={network} node={node} />
  ) : (
    <code class={target.length > maxIdChars ? 'breakable' : undefined} title={target}>
      {target.length > maxTargetChars ? `…${target.slice(-4)}` : target}
    </code>
  )
}
