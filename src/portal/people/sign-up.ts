import { discardSignUp, signUpRecord } from '../../services/accounts/account-deletion.ts'
import { maxNameChars, numberedName } from '../../services/accounts/account-fields.ts'
import { generateAccountId } from '../../services/accounts/api-key.ts'
import { RecordedAccounts } from '../../services/accounts/recorded-accounts.ts'
import type { Clock } from '../../services/clock.ts'
import type { Log } from '../../services/log.ts'
import { neverExpires } from '../../store/record-store.ts'
import type { RecordStore } from '../../store/record-store.ts'
import type { LazyStore } from '../../store/lazy-store.ts'
import { siteOf } from '../../util/address-set.ts'
import { dayMs, isoDate } from '../../util/dates.ts'
import { isJsonObject } from '../../util/json.ts'
import { ApiError } from '../api-errors.ts'
import { oneAtATime, tryLock } from '../concurrent-changes.ts'
import { domainOf, publicMailDomains, registeredDomainOf, toMailbox } from '../mail/mailbox.ts'
import type { ProvenAddress } from './one-time-links.ts'
import { addVerifiedPerson, findPersonByEmail } from './people.ts'
import type { Person } from './people.ts'
import { generateToken } from './random-tokens.ts'
import type { RecordServices } from '../record-services.ts'

export interface SignUpOptions {
  /** The plan of new accounts. */
  readonly plan: string
  /** Most new accounts in a UTC day, of all gateways together. */
  readonly perDay: number
  /** The domains of e-mail addresses that may sign up; empty: every domain. */
  readonly domains: readonly string[]
  /** Whether the operator approves each account before its keys are accepted. */
  readonly approval: boolean
}

export interface SignUpServices extends RecordServices {
  readonly store: LazyStore
  readonly signUp?: SignUpOptions
  readonly log: Log
}

/** May this e-mail address get an account of its own? The day may be full all the same, and the mailbox may have made one. */
export const maySignUp = ({ signUp }: Pick<SignUpServices, 'signUp'>, { email }: Pick<ProvenAddress, 'email'>): boolean =>
  signUp !== undefined && (signUp.domains.length === 0 || signUp.domains.includes(domainOf(email)))

/**
 * Makes an account for the address, and its owner; who has got one meanwhile is its person. Rejects with ApiError where that may not be, where
 * the day is full, or while another sign-up makes an account of this mailbox.
 */
export const signUpWithEmail = async (services: SignUpServices, address: ProvenAddress, network: string): Promise<Person> => {
  const { store, signUp } = services
  const { email } = address
  if (signUp === undefined || !maySignUp(services, address))
    throw new ApiError(403, 'not-invited', `${email} has no account here: ask an owner of an account to invite it on the page Access`)
  const mailbox = toMailbox(email)
  const release = await tryLock(services, `sign-up ${mailbox}`, lockTtlMs)
  if (release === undefined)
    throw new ApiError(409, 'sign-up-running', 'the account of this e-mail address is just being made: sign in again')
  try {
    const existing = await findPersonByEmail(store, email)
    if (existing !== undefined) return existing
    if ((await store.findRecord('mailbox', mailbox)) !== undefined) throw mailboxTaken()
    const isNamedDomain = signUp.domains.length > 0
    if (!(await takeSignUpSlot(services, signUp.perDay, { email, network, isNamedDomain }))) throw signUpFull()
    return await makeAccount(services, signUp, email)
  } finally {
    await release()
  }
}

const mailboxTaken = (): ApiError =>
  new ApiError(
    403,
    'mailbox-taken',
    'this mailbox has made an account already, maybe with another spelling of its address: sign in with that spelling',
  )

const signUpFull = (): ApiError => new ApiError(403, 'sign-up-full', 'no more accounts are made today; try again tomorrow')

const makeAccount = async (services: SignUpServices, signUp: SignUpOptions, email: string): Promise<Person> => {
  const { store, clock, log } = services
  const account = generateAccountId()
  // First: removeDeletedAccounts() finds by it what a sign-up leaves that fails, or dies.
  const unfinished = signUpRecord(account, clock.now())
  await store.putRecord('deletion', unfinished)
  await addAccount({ ...services, signUp }, account, email)
  if (signUp.approval)
    log.info({ event: 'sign-up-unapproved', account }, 'sign-up waits for approval: `tollgate accounts resume` approves it')
  // It stays as long as the account does: who leaves the account to others makes no second one.
  const mailbox = { id: toMailbox(email), account, value: true, expires: neverExpires }
  const owner = { account, name: nameFrom(email), role: 'owner' } as const
  const person = await addVerifiedPerson(store, owner, email, () => [
    { kind: 'mailbox', id: mailbox.id, record: mailbox },
    { kind: 'deletion', id: account, found: unfinished },
  ])
  if (person !== undefined) return person
  // The operator has given the address to somebody meanwhile, or an invitation was accepted: nobody ever signs in to the account.
  await discardSignUp({ store, clock, accounts: accountsOfSignUps(services) }, unfinished)
  const other = await findPersonByEmail(store, email)
  return other ?? Promise.reject(new ApiError(409, 'sign-up-running', 'this e-mail address was just given to somebody: sign in again'))
}

const accountsOfSignUps = ({ store, clock }: SignUpServices): RecordedAccounts =>
  new RecordedAccounts(store, clock, { kind: 'person', name: 'sign-up' })

/** Named as the address; with a number where another account has the name. */
const addAccount = async (services: SignUpServices & { readonly signUp: SignUpOptions }, id: string, email: string): Promise<void> => {
  const {
    clock,
    signUp: { plan, approval },
  } = services
  const accounts = accountsOfSignUps(services)
  for (let i = 1; ; i += 1) {
    const name = numberedName(nameFrom(email), i)
    const created = clock.now()
    if (await accounts.addAccount({ id, name, plan, created, ...(approval && { suspended: created, awaitsApproval: created }) })) return
  }
}

/** The letters that names of accounts may have. */
const nameFrom = (email: string): string => email.replaceAll(/[^\w.@-]/g, '-').slice(0, maxNameChars)

/** Of a gateway that dies while it makes an account. */
const lockTtlMs = 60_000

/** Who makes an account. */
interface NewcomerOrigin {
  readonly email: string
  /** The network of the browser. */
  readonly network: string
  /** Whether the operator has named the domain as one that may sign up. */
  readonly isNamedDomain: boolean
}

/** Of the accounts of a day, what one domain and one network may make at most: the others are for everybody else. */
const maxShare = 0.1
const minSharedSlots = 5

/**
 * Takes one of the `perDay` accounts of this UTC day; false when the day is full, or full for this domain or this network. Those that
 * are taken at the same time, on several gateways too, are counted one after the other.
 */
const takeSignUpSlot = async (
  services: { readonly store: RecordStore; readonly clock: Clock },
  perDay: number,
  { email, network, isNamedDomain }: NewcomerOrigin,
): Promise<boolean> => {
  const { store, clock } = services
  const day = isoDate(clock.now())
  const domain = registeredDomainOf(email)
  const limits: readonly (readonly [member: string, value: string])[] = [
    ['site', siteOf(network)],
    ...(isNamedDomain || publicMailDomains.has(domain) ? [] : [['domain', domain] as const]),
  ]
  return oneAtATime(services, `signed-up ${day}`, async () => {
    const taken = (await store.records('signed-up', day)).map(({ value }) => value)
    const slotsOf = (member: string, value: string): number => taken.filter(slot => isJsonObject(slot) && slot[member] === value).length
    const maxShared = Math.max(minSharedSlots, Math.ceil(perDay * maxShare))
    if (taken.length >= perDay || limits.some(([member, value]) => slotsOf(member, value) >= maxShared)) return false
    const slot = { id: `${day}/${generateToken()}`, account: day, value: Object.fromEntries(limits) }
    return store.addRecord('signed-up', { ...slot, expires: clock.now() + 2 * dayMs })
  })
}
