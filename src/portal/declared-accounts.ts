import { isDeepStrictEqual } from 'node:util'
import type { DeclaredAccount, DeclaredPerson, ExportedAccount } from '../config/account-files.ts'
import type { Problem } from '../config/problem.ts'
import { prepareDeletion } from '../services/accounts/account-deletion.ts'
import { accountName } from '../services/accounts/account-fields.ts'
import type { Role } from '../services/accounts/account-fields.ts'
import { generateAccountId } from '../services/accounts/api-key.ts'
import type { LazyStore } from '../store/lazy-store.ts'
import { StoreError, applyChange } from '../store/store.ts'
import type { AccountChange, AccountRow, Declaration } from '../store/store.ts'
import type { MaybePromise } from '../util/async.ts'
import { isoTimeOrNull } from '../util/dates.ts'
import { ApiError } from './api-errors.ts'
import { findPersonByEmail, listPeople } from './people/people.ts'
import type { Person, PersonWithoutEmail } from './people/people.ts'
import { addToAccount, giveEmail, giveRole, removeFromAccount, requireOtherOwner } from './people/person-changes.ts'
import type { ChangeServices } from './record-services.ts'

interface DeclarationServices extends ChangeServices {
  readonly store: LazyStore
}

export interface DeclarationRequest {
  /** Those of all files, in the order of their names. */
  readonly accounts: readonly DeclaredAccount[]
  /** Which accounts and people are removed that the files do not have: those of earlier files, or all. */
  readonly prune: 'none' | 'declared' | 'all'
}

type Value = string | number | boolean | null

/** What becomes of an account, or of a person of it. */
export interface DeclaredChange {
  /** Its name. */
  readonly account: string
  readonly person?: string
  readonly change: 'added' | 'changed' | 'removed'
  readonly fields: Readonly<Record<string, { readonly from: Value; readonly to: Value }>>
}

/** An account or a person of earlier files, which the files do not have. */
type Unlisted = Pick<DeclaredChange, 'account' | 'person'>

interface PlannedStep {
  /** Undefined where only the record of what is declared changes. */
  readonly shown: DeclaredChange | undefined
  /** False, and nothing is changed, where the store is not as it was found any more. */
  run(): Promise<boolean>
}

/** The difference between the files and the store. */
export interface DeclarationPlan {
  readonly steps: readonly PlannedStep[]
  /** Why nothing of it may be done. */
  readonly problems: readonly Problem[]
  readonly kept: readonly Unlisted[]
  /** Accounts of the files that somebody has deleted, and that are not resumed. */
  readonly deleted: readonly AccountRow[]
  /** How many accounts the files have. */
  readonly declaredCount: number
}

/** A plan is made anew where somebody else has changed an account meanwhile. */
const maxPlans = 10

/**
 * Makes the store what the files say. Each step is done only while the store is as the step was planned for. Where that fails, the rest is
 * planned anew: what others have changed meanwhile is in the difference, or stays. Returns the last plan: with problems, its steps are not
 * done. `check` throws to end it.
 */
export const applyAccounts = async (
  services: DeclarationServices,
  request: DeclarationRequest,
  { check, onChange }: { check?(plan: DeclarationPlan): MaybePromise<void>; onChange(change: DeclaredChange): void },
): Promise<DeclarationPlan> => {
  for (let plans = 1; plans <= maxPlans; plans += 1) {
    const plan = await planAccounts(services, request)
    if (plan.problems.length > 0) return plan
    await check?.(plan)
    if (await runSteps(plan, onChange)) return plan
  }
  throw new StoreError('others change the accounts at the same time: apply the files again')
}

const runSteps = async ({ steps }: DeclarationPlan, onChange: (change: DeclaredChange) => void): Promise<boolean> => {
  for (const { shown, run } of steps) {
    if (!(await run())) return false
    if (shown !== undefined) onChange(shown)
  }
  return true
}

/** Changes nothing. */
export const planAccounts = async (services: DeclarationServices, { accounts, prune }: DeclarationRequest): Promise<DeclarationPlan> => {
  const all = await services.store.accounts()
  const rows = new Map(all.map(row => [row.name, row]))
  const declared: AccountPlan[] = []
  for (const account of accounts) declared.push(await planAccount(services, account, rows.get(account.name), prune))
  for (const { name } of accounts) rows.delete(name)
  const unlisted = [...rows.values()].filter(row => row.deleteAt === undefined && (prune === 'all' || row.declared !== undefined))
  const emails = await orderEmails(services, declared)
  return {
    steps: [
      ...declared.flatMap(plan => plan.accountSteps),
      // An account has an owner at each moment, and an address is free before somebody else gets it.
      ...declared.flatMap(plan => plan.additions),
      ...declared.flatMap(plan => plan.changes),
      ...emails.steps,
      ...(prune === 'none' ? [] : unlisted.map(row => removalOf(services, row))),
    ],
    problems: [...formerNameProblems(accounts, all), ...declared.flatMap(plan => plan.problems), ...emails.problems],
    kept: [...declared.flatMap(plan => plan.kept), ...(prune === 'none' ? unlisted.map(({ name }) => ({ account: name })) : [])],
    deleted: declared.flatMap(plan => plan.deleted),
    declaredCount: accounts.length,
  }
}

/** An account keeps its former names: it is found by them, and no other account gets one. */
const formerNameProblems = (accounts: readonly DeclaredAccount[], rows: readonly AccountRow[]): readonly Problem[] => {
  const namesNow = new Map(rows.flatMap(({ name, formerNames = [] }) => formerNames.map(former => [former, name] as const)))
  return accounts.flatMap(({ name, problemAt }) => {
    const nameNow = namesNow.get(name)
    if (nameNow === undefined) return []
    const hint = `write ${nameNow} in its place, or give another account a name that none has had`
    return [problemAt([], `the account ${name} is called ${nameNow} now`, hint)]
  })
}

/** What is to be done about one account. */
interface AccountPlan extends Pick<DeclarationPlan, 'problems' | 'kept' | 'deleted'> {
  readonly accountSteps: readonly PlannedStep[]
  /** People who are added, or become owners. */
  readonly additions: readonly PlannedStep[]
  /** Other roles, and people who are removed. */
  readonly changes: readonly PlannedStep[]
  readonly emails: readonly EmailChange[]
  /** Ids. */
  readonly removedPeople: readonly string[]
}

const planAccount = async (
  services: DeclarationServices,
  account: DeclaredAccount,
  row: AccountRow | undefined,
  prune: DeclarationRequest['prune'],
): Promise<AccountPlan> => {
  const people = row === undefined ? [] : await listPeople(services.store, row.id)
  const undeclared = account.people === undefined ? [] : people.filter(({ name }) => !Object.hasOwn(account.people ?? {}, name))
  const wasDeclared = ({ name }: Person) => row?.declared?.people?.includes(name) === true
  const removed = prune === 'none' ? [] : undeclared.filter(person => prune === 'all' || wasDeclared(person))
  const kept = undeclared.filter(person => wasDeclared(person) && !removed.includes(person))
  const declarationWith = (others: readonly Person[]): Declaration =>
    account.people === undefined ? {} : { people: [...Object.keys(account.people), ...others.map(({ name }) => name)].sort() }
  // Who is removed is declared until they are: an apply that is cut off can be repeated.
  const declaration = declarationWith(undeclared.filter(wasDeclared))
  const planned = row === undefined ? planAddition(services, account, declaration) : planChange(services, account, row, declaration)
  const { changes, ...plannedPeople } = planPeople(services, { account, id: planned.row.id, people, removed })
  const declared = { ...planned.row.declared, ...declarationWith(kept) }
  const forget: PlannedStep = { shown: undefined, run: () => services.accounts.changeFoundAccount(planned.row, { declared }) }
  return {
    accountSteps: planned.steps,
    ...plannedPeople,
    changes: removed.some(wasDeclared) ? [...changes, forget] : changes,
    kept: kept.map(({ name }) => ({ account: account.name, person: name })),
    deleted: planned.row.deleteAt === undefined ? [] : [planned.row],
  }
}

interface PlannedRow {
  /** As it is afterwards. */
  readonly row: AccountRow
  readonly steps: readonly PlannedStep[]
}

const planAddition = ({ accounts, clock }: DeclarationServices, account: DeclaredAccount, declaration: Declaration): PlannedRow => {
  const { name, plan, credits, label, suspended = false } = account
  const now = clock.now()
  const declared = { ...declaration, ...(suspended && { suspended: now }) }
  const empty: AccountRow = { id: generateAccountId(), name, plan, created: now }
  const row = applyChange(empty, { credits: credits || null, label: label || null, suspended: suspended ? now : null, declared })
  const fields = { plan: { from: null, to: plan }, ...fieldsOf(empty, row) }
  return { row, steps: [{ shown: { account: name, change: 'added', fields }, run: () => accounts.addAccount(row) }] }
}

const planChange = (
  { store, accounts, clock }: DeclarationServices,
  account: DeclaredAccount,
  row: AccountRow,
  declaration: Declaration,
): PlannedRow => {
  const { name, plan, credits, label } = account
  const now = clock.now()
  const state = declaredState(account, row, now)
  const declared = { ...declaration, ...(account.suspended === true && { suspended: state.suspended ?? undefined }) }
  const change: AccountChange = { plan, credits: credits || null, label: label || null, ...state, declared: withoutUndefined(declared) }
  const changed = applyChange(row, change)
  if (isDeepStrictEqual(changed, row)) return { row, steps: [] }
  const fields = fieldsOf(row, changed)
  const shown = Object.keys(fields).length === 0 ? undefined : ({ account: name, change: 'changed', fields } as const)
  const isSuspendedAnew = account.suspended === true && row.declared?.suspended !== changed.suspended
  return {
    row: changed,
    steps: [
      {
        shown,
        async run() {
          // As `accounts suspend` does it: what an owner has deleted, only the operator resumes from now on.
          if (isSuspendedAnew && changed.deleteAt !== undefined) await prepareDeletion(store, row, now)
          return accounts.changeFoundAccount(row, change)
        },
      },
    ],
  }
}

/** As it is read from the store again. */
const withoutUndefined = ({
  people,
  suspended,
  deleteAt,
}: { [Name in keyof Declaration]: Declaration[Name] | undefined }): Declaration => ({
  ...(people !== undefined && { people }),
  ...(suspended !== undefined && { suspended }),
  ...(deleteAt !== undefined && { deleteAt }),
})

/** A suspension or a deletion by somebody else stays, unless the file says `suspended: false`. */
const declaredState = (
  { suspended }: DeclaredAccount,
  row: AccountRow,
  now: number,
): Pick<AccountChange, 'suspended' | 'suspensionReason' | 'deleteAt'> => {
  const { declared } = row
  const isByApply = declared !== undefined && declared.suspended === row.suspended && declared.deleteAt === row.deleteAt
  if (suspended === false || (suspended === undefined && isByApply)) return { suspended: null, suspensionReason: null, deleteAt: null }
  const deleteAt = isByApply ? null : (row.deleteAt ?? null)
  return { suspended: row.suspended ?? (suspended === true ? now : null), deleteAt }
}

/** What operators see of an account. */
const shownFields = ({ plan, credits, label, suspended, deleteAt }: AccountRow) => ({
  plan,
  credits: credits ?? null,
  label: label ?? null,
  suspended: suspended !== undefined,
  deleteAt: isoTimeOrNull(deleteAt),
})

const fieldsOf = (before: AccountRow, after: AccountRow): DeclaredChange['fields'] => {
  const known: Readonly<Record<string, Value>> = shownFields(before)
  const changed = Object.entries(shownFields(after)).filter(([name, value]) => known[name] !== value)
  return Object.fromEntries(changed.map(([name, to]) => [name, { from: known[name] ?? null, to }]))
}

/** As `accounts delete` does it; the account is resumed where a file has it again before it is removed. */
const removalOf = ({ store, accounts, clock }: DeclarationServices, row: AccountRow): PlannedStep => {
  const now = clock.now()
  return {
    shown: { account: row.name, change: 'removed', fields: {} },
    async run() {
      const change = await prepareDeletion(store, row, now)
      return accounts.changeFoundAccount(row, { ...change, declared: { ...row.declared, ...change } })
    },
  }
}

interface PlannedPeople {
  readonly account: DeclaredAccount
  /** Of the account. */
  readonly id: string
  /** As the store has them. */
  readonly people: readonly Person[]
  readonly removed: readonly Person[]
}

const planPeople = (services: DeclarationServices, planned: PlannedPeople): Omit<AccountPlan, 'accountSteps' | 'kept' | 'deleted'> => {
  const { account, id, people, removed } = planned
  const declared = Object.entries(account.people ?? {}).map(([name, person]) => {
    return { name, ...person, known: people.find(each => each.name === name) }
  })
  const added = declared.filter(({ known }) => known === undefined)
  const roleSteps = declared.flatMap(({ known, role }) =>
    known === undefined || known.role === role ? [] : [{ role, step: roleStep(services, account.name, known, role) }],
  )
  return {
    additions: [
      ...added.map(({ name, role }) => additionStep(services, account.name, { account: id, name, role })),
      ...roleSteps.flatMap(({ role, step }) => (role === 'owner' ? [step] : [])),
    ],
    changes: [
      ...removed.map(person => removalStep(services, account.name, person)),
      ...roleSteps.flatMap(({ role, step }) => (role === 'owner' ? [] : [step])),
    ],
    emails: declared.flatMap(({ name, email, known }) =>
      email === undefined || email === known?.email ? [] : [{ account, id, name, known, email }],
    ),
    removedPeople: removed.map(person => person.id),
    problems: ownerProblems(planned),
  }
}

/** As everywhere: the last owner stays one. */
const ownerProblems = ({ account, people, removed }: PlannedPeople): readonly Problem[] => {
  const declared: Readonly<Record<string, DeclaredPerson>> = account.people ?? {}
  const roleOf = ({ name, role }: Person): Role => (Object.hasOwn(declared, name) ? (declared[name]?.role ?? role) : role)
  const owner = people.find(({ role }) => role === 'owner')
  const hasOwner =
    people.some(person => !removed.includes(person) && roleOf(person) === 'owner') ||
    Object.values(declared).some(({ role }) => role === 'owner')
  if (owner === undefined || hasOwner) return []
  const message = `${owner.name} is the last owner of the account ${account.name}, and would be none any more`
  return [account.problemAt(['people'], message, 'give a person of the account the role owner')]
}

const additionStep = (services: DeclarationServices, account: string, person: PersonWithoutEmail): PlannedStep => {
  const { name, role } = person
  return {
    shown: { account, person: name, change: 'added', fields: { role: { from: null, to: role } } },
    run: () => isAccepted(addToAccount(services, person)),
  }
}

/** The plan has left another owner, who may have left the account meanwhile: then it is refused. */
const roleStep = (services: DeclarationServices, account: string, person: Person, role: Role): PlannedStep => ({
  shown: { account, person: person.name, change: 'changed', fields: { role: { from: person.role, to: role } } },
  run: () => isAccepted(giveRole(services, person, role)),
})

const removalStep = (services: DeclarationServices, account: string, person: Person): PlannedStep => ({
  shown: { account, person: person.name, change: 'removed', fields: {} },
  run: () => isAccepted(removeFromAccount(services, person, () => requireOtherOwner(services.store, person))),
})

const isAccepted = async (change: Promise<unknown>): Promise<boolean> => {
  try {
    await change
    return true
  } catch (error) {
    if (error instanceof ApiError) return false
    throw error
  }
}

interface EmailChange {
  readonly account: DeclaredAccount
  /** Of the account. */
  readonly id: string
  /** Of the person. */
  readonly name: string
  /** Undefined for who is just added. */
  readonly known: Person | undefined
  /** In lower case. */
  readonly email: string
}

/** Who gives an address up comes before who gets it. An address that somebody keeps, and one that goes round in a circle, is a problem. */
const orderEmails = async (
  services: DeclarationServices,
  plans: readonly AccountPlan[],
): Promise<Pick<DeclarationPlan, 'steps' | 'problems'>> => {
  const gone = new Set(plans.flatMap(plan => plan.removedPeople))
  const steps: PlannedStep[] = []
  let waiting: { readonly change: EmailChange; readonly holder: Person | undefined }[] = []
  for (const change of plans.flatMap(plan => plan.emails))
    waiting.push({ change, holder: await findPersonByEmail(services.store, change.email) })
  for (;;) {
    const ready = waiting.filter(({ holder }) => holder === undefined || gone.has(holder.id))
    if (ready.length === 0) break
    waiting = waiting.filter(each => !ready.includes(each))
    for (const { change } of ready) {
      steps.push(emailStep(services, change))
      if (change.known !== undefined) gone.add(change.known.id)
    }
  }
  const rows = waiting.length === 0 ? [] : await services.store.accounts()
  const nameOf = (id: string) => rows.find(row => row.id === id)?.name ?? id
  return {
    steps,
    problems: waiting.map(({ change: { account, name, email }, holder }) => {
      const place = holder === undefined ? '' : `: ${holder.name} of the account ${nameOf(holder.account)}`
      const message = `somebody else has the address ${email}${place}`
      return account.problemAt(
        ['people', name, 'email'],
        message,
        'an address belongs to one person: give the other person another one first',
      )
    }),
  }
}

const emailStep = (services: DeclarationServices, { account, id, name, known, email }: EmailChange): PlannedStep => ({
  shown: { account: account.name, person: name, change: 'changed', fields: { email: { from: known?.email ?? null, to: email } } },
  async run() {
    const person = (await listPeople(services.store, id)).find(each => each.name === name)
    if (person === undefined || person.email !== known?.email) return false
    return giveEmail(services, person, email)
  },
})

/** One change for each account and each person, in the order of their names. */
export const mergeChanges = (changes: readonly DeclaredChange[]): readonly DeclaredChange[] => {
  const merged = new Map<string, DeclaredChange>()
  for (const change of changes) {
    const key = `${change.account} ${change.person ?? ''}`
    const before = merged.get(key)
    merged.set(key, before === undefined ? change : { ...before, fields: { ...before.fields, ...change.fields } })
  }
  return [...merged].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, change]) => change)
}

export const shownChanges = ({ steps }: DeclarationPlan): readonly DeclaredChange[] =>
  mergeChanges(steps.flatMap(({ shown }) => shown ?? []))

/** The accounts as files have them. What is about to be removed is left out, and a name that no file may have. */
export const exportAccounts = async (
  store: LazyStore,
): Promise<{ readonly accounts: readonly ExportedAccount[]; readonly leftOut: readonly string[] }> => {
  const rows = await store.accounts()
  const isExported = ({ name, deleteAt }: AccountRow) => deleteAt === undefined && new RegExp(accountName.pattern).test(name)
  const accounts: ExportedAccount[] = []
  for (const { id, name, plan, credits, label, suspended } of rows.filter(isExported)) {
    const people = (await listPeople(store, id)).toSorted((a, b) => (a.name < b.name ? -1 : 1))
    accounts.push({
      name,
      plan,
      ...(credits !== undefined && { credits }),
      ...(label !== undefined && { label }),
      ...(suspended !== undefined && { suspended: true }),
      ...(people.length > 0 && { people: Object.fromEntries(people.map(person => [person.name, toDeclaredPerson(person)])) }),
    })
  }
  return { accounts, leftOut: rows.filter(row => !isExported(row)).map(({ name }) => name) }
}

const toDeclaredPerson = ({ role, email }: Person): DeclaredPerson => ({ role, ...(email !== undefined && { email }) })
