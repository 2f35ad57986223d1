import { roles } from '../../services/accounts/account-fields.ts'
import type { Role } from '../../services/accounts/account-fields.ts'
import type { ChangeAuthor } from '../../services/accounts/change-history.ts'
import type { Clock } from '../../services/clock.ts'
import { neverExpires } from '../../store/record-store.ts'
import type { RecordChange, RecordStore, StoredRecord } from '../../store/record-store.ts'
import { isJsonObject } from '../../util/json.ts'
import { editRecord, oneAtATime } from '../concurrent-changes.ts'
import { randomId } from './random-tokens.ts'

/** The person that an account begins with. */
export const firstPersonName = 'owner'

/** Someone who signs in for one account. */
export interface Person {
  readonly id: string
  /** Id of the account. */
  readonly account: string
  /** Unique in the account. */
  readonly name: string
  readonly role: Role
  /** In lower case. Where links are sent; nobody else has it. */
  readonly email?: string
  /** Whether the address is known to be theirs: a link that was mailed there was opened, or a provider has verified it. */
  readonly isEmailVerified?: boolean
  /** The address that becomes theirs once they have confirmed it. It reserves nothing: others may have it, or get it before. */
  readonly newEmail?: string
}

/** A person before they have an address. */
export type PersonWithoutEmail = Pick<Person, 'account' | 'name' | 'role'>

/** Who has changed something, in the log of changes. */
export const authorOf = ({ id, name }: Pick<Person, 'id' | 'name'>): ChangeAuthor => ({ kind: 'person', name: `${name} (${id})` })

export const hasRole = (role: Role, required: Role): boolean => roles.indexOf(role) >= roles.indexOf(required)

export const listPeople = async (store: RecordStore, account: string): Promise<readonly Person[]> =>
  (await store.records('person', account)).flatMap(record => toPerson(record) ?? [])

/** Owners who have shown that their e-mail address is theirs: who is mailed what concerns the account. */
export const listVerifiedOwners = async (
  store: RecordStore,
  account: string,
): Promise<readonly (Person & Required<Pick<Person, 'email'>>)[]> =>
  (await listPeople(store, account)).flatMap(({ email, ...person }) =>
    person.role === 'owner' && person.isEmailVerified === true && email !== undefined ? { ...person, email } : [],
  )

export const findPerson = async (store: RecordStore, id: string): Promise<Person | undefined> =>
  toPerson(await store.findRecord('person', id))

/** The person of this name; a new one where the account has none. An existing person keeps their role. */
export const getOrAddPerson = async (store: RecordStore, clock: Clock, person: PersonWithoutEmail): Promise<Person> =>
  (await findByName(store, person)) ??
  oneAtATime({ store, clock }, nameLock(person), async () => (await findByName(store, person)) ?? addPerson(store, person))

/** Undefined when the account has a person of this name, or `add` resolves with undefined. */
export const addNewPerson = (
  store: RecordStore,
  clock: Clock,
  person: PersonWithoutEmail,
  add = (): Promise<Person | undefined> => addPerson(store, person),
): Promise<Person | undefined> =>
  oneAtATime({ store, clock }, nameLock(person), async () => ((await findByName(store, person)) === undefined ? add() : undefined))

/** Taken by what adds or removes people of an account: the account keeps an owner, and has at most so many people. */
export const peopleLock = (account: string): string => `people ${account}`

const nameLock = ({ account, name }: Pick<Person, 'account' | 'name'>): string => `person ${account} ${name}`

const findByName = async (store: RecordStore, { account, name }: Pick<Person, 'account' | 'name'>): Promise<Person | undefined> =>
  (await listPeople(store, account)).find(person => person.name === name)

export const addPerson = async (store: RecordStore, { account, name, role }: PersonWithoutEmail): Promise<Person> => {
  const id = randomId('usr_')
  await store.putRecord('person', { id, account, value: { name, role }, expires: neverExpires })
  return { id, account, name, role }
}

/** The person can no longer sign in; sessions and tokens end with them, as each request looks the person up. Of several removals at once, one is true. */
export const removePerson = async (store: RecordStore, { id }: Person): Promise<boolean> => {
  for (;;) {
    const found = await store.findRecord('person', id)
    if (found === undefined) return false
    const email = await emailRemoval(store, id, toPerson(found)?.email)
    if (await store.changeRecords([{ kind: 'person', id, found }, ...email, ...(await identityRemoval(store, id))])) return true
  }
}

/** Of a person as they were found. False when they were changed or removed meanwhile. */
export const changeRole = (store: RecordStore, { id, role: known }: Person, role: Role): Promise<boolean> =>
  editRecord(store, 'person', id, record => {
    const person = toPerson(record)
    return person?.role === known && isJsonObject(record.value) ? { ...record.value, role } : undefined
  })

/** False when the account has another person of this name, or the person was removed meanwhile. */
export const renamePerson = (store: RecordStore, clock: Clock, { id, account }: Person, name: string): Promise<boolean> =>
  oneAtATime({ store, clock }, nameLock({ account, name }), async () =>
    (await findByName(store, { account, name })) === undefined
      ? editRecord(store, 'person', id, ({ value }) => (isJsonObject(value) ? { ...value, name } : undefined))
      : false,
  )

/** Undefined gives up the address that was to be confirmed. False when the person was removed meanwhile. */
export const setNewEmail = (store: RecordStore, id: string, newEmail: string | undefined): Promise<boolean> =>
  editRecord(store, 'person', id, ({ value }) => {
    if (!isJsonObject(value)) return undefined
    const { newEmail: _, ...rest } = value
    return { ...rest, ...(newEmail !== undefined && { newEmail }) }
  })

/** Within peopleLock(): others may stop being owners at the same time. */
export const isLastOwner = async (store: RecordStore, { id, account }: Person): Promise<boolean> => {
  const owners = (await listPeople(store, account)).filter(({ role }) => role === 'owner')
  return owners.length === 1 && owners[0]?.id === id
}

/** The identity of an OpenID Connect provider by which a person signs in. */
export interface LinkedIdentity {
  /** Of issuer and subject. */
  readonly hash: string
  readonly issuer: string
  /** Milliseconds since 1970: the first sign-in. */
  readonly linked: number
}

/** The identity of an OpenID Connect provider by which the person has signed in no longer does. */
export const unlinkIdentity = async (store: RecordStore, id: string): Promise<boolean> => {
  for (;;) {
    const changes = await identityRemoval(store, id)
    if (await store.changeRecords(changes)) return changes.some(({ found }) => found !== undefined)
  }
}

/** A person without an identity has none still when the changes are made: linkNewIdentity() may be linking one. */
const identityRemoval = async (store: RecordStore, id: string): Promise<readonly RecordChange[]> => {
  const link = await store.findRecord('identity-of', id)
  const hash = isJsonObject(link?.value) ? String(link.value['hash']) : undefined
  const identity = hash === undefined ? undefined : await store.findRecord('identity', hash)
  const isTheirs = identity?.value === id
  return [{ kind: 'identity-of', id, found: link }, ...(isTheirs ? [{ kind: 'identity', id: identity.id, found: identity } as const] : [])]
}

/**
 * Gives the person an e-mail address, in place of another and of the identity that it was linked to. False when somebody else has it, or
 * the person was changed or removed meanwhile. An address that was verified stays so.
 */
export const setEmail = async (store: RecordStore, known: Person, email: string, isVerified = false): Promise<boolean> => {
  const { id, account, email: previous } = known
  if (previous === email && !isVerified) return true
  for (;;) {
    const found = await store.findRecord('person', id)
    if (found === undefined || !isJsonObject(found.value) || toPerson(found)?.email !== previous) return false
    // Another address takes the place of one that was to be confirmed, too.
    const { isEmailVerified: _, newEmail, ...others } = found.value
    const isStillNew = email === previous && newEmail !== undefined && newEmail !== email
    const value = { ...others, email, ...(isVerified && { isEmailVerified: true }), ...(isStillNew && { newEmail }) }
    const changes: RecordChange[] = [{ kind: 'person', id, found, record: { ...found, value } }]
    if (previous !== email) {
      if ((await findPersonByEmail(store, email)) !== undefined) return false
      changes.push({ kind: 'email', id: email, record: emailRecord({ id, account, email }) })
      changes.push(...(await emailRemoval(store, id, previous)), ...(await identityRemoval(store, id)))
    }
    if (await store.changeRecords(changes)) return true
  }
}

const emailRecord = ({ id, account, email }: Pick<Person, 'id' | 'account'> & { readonly email: string }): StoredRecord => ({
  id: email,
  account,
  value: id,
  expires: neverExpires,
})

/**
 * Adds a person whose address is known to be theirs, and makes `changesFor` them in the same step: a store that fails leaves nobody without an
 * address. Undefined when somebody else has the address, or one of these changes cannot be made any more.
 */
export const addVerifiedPerson = async (
  store: RecordStore,
  { account, name, role }: PersonWithoutEmail,
  email: string,
  changesFor: (person: Person) => readonly RecordChange[],
): Promise<Person | undefined> => {
  if ((await findPersonByEmail(store, email)) !== undefined) return undefined
  const id = randomId('usr_')
  const verified = { name, role, email, isEmailVerified: true }
  const person = { id, account, ...verified }
  const isAdded = await store.changeRecords([
    { kind: 'person', id, record: { id, account, value: verified, expires: neverExpires } },
    { kind: 'email', id: email, record: emailRecord({ id, account, email }) },
    ...changesFor(person),
  ])
  return isAdded ? person : undefined
}

/** Nothing where the address is somebody else's by now. */
const emailRemoval = async (store: RecordStore, id: string, email: string | undefined): Promise<readonly RecordChange[]> => {
  const found = email === undefined ? undefined : await store.findRecord('email', email)
  return found !== undefined && personIdOf(found) === id ? [{ kind: 'email', id: found.id, found }] : []
}

/** Of an address: the person who has it, or to whom an earlier version was just giving it. */
const personIdOf = ({ value }: StoredRecord): string => String(isJsonObject(value) ? value['claimedBy'] : value)

/** The person, whose address is known to be theirs. Undefined when they were removed, or have another address by now. */
export const verifyEmail = async (store: RecordStore, person: Person): Promise<Person | undefined> => {
  if (person.email === undefined || person.isEmailVerified === true) return person
  return (await setEmail(store, person, person.email, true)) ? { ...person, isEmailVerified: true } : undefined
}

export const findPersonByEmail = async (store: RecordStore, email: string): Promise<Person | undefined> => {
  const record = await store.findRecord('email', email)
  if (record === undefined) return undefined
  const person = await findPerson(store, personIdOf(record))
  // An earlier version that died while it gave the address, or removed the person, has left it.
  if (person?.email !== email) await store.changeRecords([{ kind: 'email', id: email, found: record }])
  return person?.email === email ? person : undefined
}

export const toPerson = (record: StoredRecord | undefined): Person | undefined => {
  if (record === undefined || !isJsonObject(record.value)) return undefined
  const { name, role, email, isEmailVerified, newEmail } = record.value
  const known = roles.find(each => each === role)
  return known === undefined
    ? undefined
    : {
        id: record.id,
        account: record.account,
        name: String(name),
        role: known,
        ...(typeof email === 'string' && { email, isEmailVerified: isEmailVerified === true }),
        ...(typeof newEmail === 'string' && { newEmail }),
      }
}
