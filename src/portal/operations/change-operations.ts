import { changeActions, monthOf } from '../../services/accounts/change-history.ts'
import type { Change } from '../../services/accounts/change-history.ts'
import type { Store } from '../../store/store.ts'
import { isoTime } from '../../util/dates.ts'
import { invalidField } from '../api-errors.ts'
import { accountRefSchema, authorSchema, count, listOf, object, partialObject, schemaRef, time } from '../response-schemas.ts'
import { defineOperation, tableOr } from './operation.ts'

/** What the operation returns, by the name in the OpenAPI document. */
export const changeSchemas = {
  Change: partialObject(
    {
      time,
      by: authorSchema,
      action: { type: 'string', enum: changeActions },
      account: { ...accountRefSchema, description: 'Absent where the change is of no account.' },
      target: { type: 'string', description: 'Id of the key, the person or the token; NETWORK/NODE.' },
      targetName: { type: 'string', description: 'Name and last characters of the key, as long as its account exists; for operators.' },
      after: { type: 'object', description: 'The members that were set; null was removed.' },
      before: { type: 'object', description: 'Their values before, where they are known.' },
    },
    ['time', 'by', 'action'],
  ),
  ChangePage: object({
    month: { type: 'string', description: 'YYYY-MM.' },
    changeCount: { ...count, description: 'All changes that were found; `changes` has those that were asked for.' },
    changes: listOf(schemaRef('Change')),
  }),
} as const

const dayPattern = '^\\d{4}-\\d{2}-\\d{2}$'
const dayLabel = 'a day such as 2026-01-31'

/** The days of which changes are asked for. */
export const changedDays = {
  month: {
    type: 'string',
    pattern: '^\\d{4}-(0[1-9]|1[0-2])$',
    label: 'a month such as 2026-01',
    description: 'The month (UTC); the current one if absent.',
  },
  from: {
    type: 'string',
    pattern: dayPattern,
    label: dayLabel,
    description: 'The first day (UTC), in place of a month; the month if absent.',
  },
  to: { type: 'string', pattern: dayPattern, label: dayLabel, description: 'With `from`: the last day (UTC); today if absent.' },
} as const

interface ChangedDays {
  readonly month?: string | undefined
  readonly from?: string | undefined
  readonly to?: string | undefined
}

/** Throws ApiError. */
export const checkDays = ({ from, to }: ChangedDays, now: number): void => {
  for (const [name, day] of Object.entries({ from, to }))
    if (day !== undefined && Number.isNaN(Date.parse(day))) throw invalidField(name, `must be ${dayLabel}`)
  if (to !== undefined && from === undefined) throw invalidField('to', 'requires `from`')
  if (from !== undefined && from > (to ?? isoTime(now))) throw invalidField('from', 'must not be after `to`')
}

/** The first and the last day. */
export const daysOf = ({ month: asked, from, to }: ChangedDays, now: number): { readonly from: string; readonly to: string } => {
  if (from !== undefined) return { from, to: to ?? isoTime(now).slice(0, 10) }
  const month = asked ?? monthOf(now)
  return { from: `${month}-01`, to: `${month}-31` }
}

/** Which of them are asked for. */
export const changeFilters = {
  by: { type: 'string', maxLength: 200, default: '', description: 'Only changes by authors whose kind or name has this text.' },
  action: { type: 'string', enum: changeActions, description: 'Only changes of this kind.' },
  search: { type: 'string', maxLength: 200, default: '', description: 'Part of an author, action, account, target or value.' },
  order: { type: 'string', enum: ['newest', 'oldest'], default: 'newest', description: 'Which changes come first.' },
  offset: { type: 'integer', minimum: 0, default: 0, description: 'How many changes to skip.' },
  limit: { type: 'integer', minimum: 1, maximum: 1_000, default: 100, description: 'Most changes of the response.' },
} as const

const titles = ['time', 'by', 'action', 'account', 'target', 'before', 'after']

export const changeOperations = [
  defineOperation({
    name: 'changes',
    method: 'get',
    path: '/changes',
    operationId: 'listChanges',
    summary: 'The log of changes of a month: who changed accounts, keys, people, tokens and the state of nodes.',
    input: {
      type: 'object',
      properties: {
        ...changedDays,
        account: { type: 'string', description: 'Only changes of the account with this name or id.' },
        ...changeFilters,
      },
    },
    output: schemaRef('ChangePage'),
    check: checkDays,
    async run({ month, from, to, ...filters }, { store, queries, clock }) {
      const days = daysOf({ month, from, to }, clock.now())
      const { changes, changeCount } = await queries.changePage({ ...days, ...filters })
      return { month: days.from.slice(0, 7), changeCount, changes: await withKeyNames(store, changes) }
    },
    command: {
      flags: {
        month: { placeholder: 'YYYY-MM' },
        from: { placeholder: 'YYYY-MM-DD' },
        to: { placeholder: 'YYYY-MM-DD', of: 'from' },
        account: { placeholder: 'NAME' },
        action: { placeholder: 'ACTION' },
      },
      fixed: { order: 'oldest', offset: 0, limit: Infinity },
      json: ({ changes }) => changes,
      csv: ({ changes }) => ({ columns: titles, rows: changes.map(toCells) }),
      text: ({ month, changes }) =>
        tableOr(
          `no changes in ${month}`,
          titles.map(title => title.toUpperCase()),
          changes.map(toCells),
        ),
    },
  }),
]

/** An operator knows a key by its name, and a customer by its end. */
export interface NamedChange extends Change {
  readonly targetName?: string
}

const withKeyNames = async ({ keys }: Pick<Store, 'keys'>, changes: readonly Change[]): Promise<readonly NamedChange[]> => {
  const accounts = new Set(changes.flatMap(({ action, account }) => (action.startsWith('key-') ? (account?.id ?? []) : [])))
  const found = (await Promise.all(Array.from(accounts, id => keys(id)))).flat()
  const names = new Map(found.map(({ id, name = '', hint }) => [id, `${name} …${hint}`.trim()]))
  return changes.map(change => {
    const targetName = names.get(change.target ?? '')
    return targetName === undefined ? change : { ...change, targetName }
  })
}

const toCells = ({ time: at, by, action, account, target = '', before, after }: Change): readonly string[] => [
  ...[at, `${by.kind} ${by.name}`, action, account === undefined ? '' : account.name || account.id, target],
  ...[before, after].map(members => (members === undefined ? '' : JSON.stringify(members))),
]
