import type { Role } from '../../services/accounts/account-fields.ts'
import type { RecordStore } from '../../store/record-store.ts'
import { ApiError, notFound } from '../api-errors.ts'
import { oneAtATime } from '../concurrent-changes.ts'
import { addNewPerson, changeRole, isLastOwner, peopleLock, removePerson, renamePerson, setEmail, setNewEmail } from './people.ts'
import type { Person, PersonWithoutEmail } from './people.ts'
import { signOutEverywhere } from './sessions.ts'
import type { ChangeServices } from '../record-services.ts'

// What owners, operators and people themselves change of a person, each change in the log of changes.

export const nameTaken = (name: string): ApiError => new ApiError(409, 'exists', `the account has a person named ${name}`, 'name')

/** What it reads is as it is when people of the account are added, removed or get another role. Rejects with ApiError, and nothing is changed. */
type PeopleCheck = () => Promise<void>

const noCheck: PeopleCheck = () => Promise.resolve()

/** Rejects with ApiError where the account has a person of this name, and where `check` does. */
export const addToAccount = async (services: ChangeServices, person: PersonWithoutEmail, check = noCheck): Promise<Person> => {
  const { store, accounts, clock } = services
  const { account, name, role } = person
  const added = await oneAtATime(services, peopleLock(account), async () => {
    await check()
    return addNewPerson(store, clock, person)
  })
  if (added === undefined) throw nameTaken(name)
  await accounts.recordOf(account, { action: 'person-added', target: added.id, after: { name, role } })
  return added
}

/** Rejects with ApiError for the last owner, and where `check` does. */
export const giveRole = async (services: ChangeServices, person: Person, role: Role, check = noCheck): Promise<void> => {
  const { store, accounts } = services
  const { id: target, account } = person
  if (role === person.role) return
  await oneAtATime(services, peopleLock(account), async () => {
    await check()
    if (role !== 'owner') await requireOtherOwner(store, person, 'role')
    if (!(await changeRole(store, person, role))) throw notFound('person')
  })
  await accounts.recordOf(account, { action: 'person-changed', target, before: { role: person.role }, after: { role } })
}

/** Within peopleLock(), as checks are. Rejects with ApiError for the last owner. */
export const requireOtherOwner = async (store: RecordStore, person: Person, field?: string): Promise<void> => {
  if (await isLastOwner(store, person))
    throw new ApiError(409, 'last-owner', `${person.name} is the last owner of the account: make somebody else an owner first`, field)
}

/** Rejects with ApiError. */
export const rename = async ({ store, accounts, clock }: ChangeServices, person: Person, name: string): Promise<void> => {
  const { id: target, account } = person
  if (name === person.name) return
  if (!(await renamePerson(store, clock, person, name))) throw nameTaken(name)
  await accounts.recordOf(account, { action: 'person-changed', target, before: { name: person.name }, after: { name } })
}

/** Binds the address at once, as operators may: false where somebody else has it. In lower case. */
export const giveEmail = async (
  { store, accounts }: Pick<ChangeServices, 'store' | 'accounts'>,
  person: Person,
  email: string,
): Promise<boolean> => {
  const before = person.email ?? null
  if (!(await setEmail(store, person, email))) return false
  if (before !== email)
    await accounts.recordOf(person.account, { action: 'person-changed', target: person.id, before: { email: before }, after: { email } })
  return true
}

/** Whose address it is must confirm it first. In lower case; the present address gives up another one that was to be confirmed. */
export const requestEmail = async ({ store, accounts }: ChangeServices, person: Person, email: string): Promise<void> => {
  const { id: target, account, newEmail = null } = person
  const requested = email === person.email ? null : email
  if (!(await setNewEmail(store, target, requested ?? undefined))) throw notFound('person')
  if (newEmail === requested) return
  await accounts.recordOf(account, { action: 'person-changed', target, before: { newEmail }, after: { newEmail: requested } })
}

/** Their sessions and tokens end. Rejects with ApiError where `check` does. */
export const removeFromAccount = async (
  services: ChangeServices,
  person: Person,
  check: PeopleCheck,
  action: 'person-removed' | 'person-left' = 'person-removed',
): Promise<void> => {
  const { store, accounts } = services
  const { id: target, account, name, role } = person
  await oneAtATime(services, peopleLock(account), async () => {
    await check()
    if (!(await removePerson(store, person))) throw notFound('person')
  })
  await accounts.recordOf(account, { action, target, before: { name, role } })
  await signOutEverywhere(store, person)
}
