import { Secret } from '../plugin/secret.ts'
import { generateAccountId } from '../services/accounts/api-key.ts'
import { RecordedAccounts } from '../services/accounts/recorded-accounts.ts'
import type { Clock } from '../services/clock.ts'
import type { Store } from '../store/store.ts'
import { dayMs, isoDate } from '../util/dates.ts'
import { isJsonObject } from '../util/json.ts'
import { ApiError } from './api-errors.ts'
import { signInLinkTtlMs } from './one-time-links.ts'
import { setEmail, addPerson, findPersonByEmail, verifyEmail } from './people.ts'
import type { Person } from './people.ts'
import { generateToken, hashToken } from './random-tokens.ts'
import { tryLock } from './concurrent-changes.ts'

export interface SignUpOptions {
  /** The plan of new accounts. */
  readonly plan: string
  /** Most new accounts in a UTC day, of all gateways together. */
  readonly perDay: number
  /** The domains of e-mail addresses that may sign up; empty: every domain. */
  readonly domains: readonly string[]
}

export interface SignUpServices {
  readonly store: Store
  readonly clock: Clock
  readonly signUp?: SignUpOptions
}

/** May this e-mail address get an account of its own? When its link is opened, the day may be full all the same. */
export const maySignUp = async (services: SignUpServices, email: string): Promise<boolean> => {
  const { signUp } = services
  if (signUp === undefined) return false
  if (signUp.domains.length > 0 && !signUp.domains.includes(domainOf(email))) return false
  return (await takenSlots(services, isoDate(services.clock.now()))).size < signUp.perDay
}

export const domainOf = (email: string): string => email.slice(email.lastIndexOf('@') + 1)

/** A day has `perDay` slots, each for one new account. */
const takenSlots = async ({ store }: SignUpServices, day: string): Promise<ReadonlySet<string>> =>
  new Set((await store.records('signed-up', day)).map(({ id }) => id))

/** False when the day is full. Sign-ups that complete at the same time, on several gateways too, take different slots. */
const takeSlot = async (services: SignUpServices, perDay: number): Promise<boolean> => {
  const { store, clock } = services
  const day = isoDate(clock.now())
  const taken = await takenSlots(services, day)
  for (let i = 1; i <= perDay; i += 1) {
    const id = `${day}/${i}`
    if (taken.has(id)) continue
    if (await store.addRecord('signed-up', { id, account: day, value: true, expires: clock.now() + 2 * dayMs })) return true
  }
  return false
}

/** A text that makes an account for the e-mail address, once. Only its hash is stored. */
export const createSignUpToken = async ({ store, clock }: SignUpServices, email: string): Promise<Secret> => {
  const token = generateToken()
  await store.putRecord('sign-up', { id: hashToken(token), account: '', value: { email }, expires: clock.now() + signInLinkTtlMs })
  return new Secret(token)
}

/**
 * Makes the account that the token is for, and its first person. Who has got an account meanwhile is signed in to that. Undefined for
 * an unknown token, and when sign-up has been closed or is full for today.
 */
export const completeSignUp = async (services: SignUpServices, token: string): Promise<Person | undefined> => {
  const { store, signUp } = services
  const record = await store.takeRecord('sign-up', hashToken(token))
  const email = isJsonObject(record?.value) ? String(record.value['email']) : undefined
  if (email === undefined || signUp === undefined) return undefined
  const existing = await findPersonByEmail(store, email)
  if (existing !== undefined) return verifyEmail(store, existing)
  return (await maySignUp(services, email)) ? signUpWithEmail(services, signUp, email) : undefined
}

/**
 * Makes an account for the address, and its owner; who has got one meanwhile is its person. Undefined when sign-up is full for today.
 * Rejects with ApiError while another sign-up makes the account of this address.
 */
export const signUpWithEmail = async (services: SignUpServices, signUp: SignUpOptions, email: string): Promise<Person | undefined> => {
  const release = await tryLock(services, `sign-up ${email}`, lockTtlMs)
  if (release === undefined)
    throw new ApiError(409, 'sign-up-running', 'the account of this e-mail address is just being made: sign in again')
  try {
    return (await findPersonByEmail(services.store, email)) ?? (await makeAccount(services, signUp, email))
  } finally {
    await release()
  }
}

const makeAccount = async (services: SignUpServices, { perDay, plan }: SignUpOptions, email: string): Promise<Person | undefined> => {
  const { store } = services
  if (!(await takeSlot(services, perDay))) return undefined
  const account = await addAccount(services, plan, email)
  const person = await addPerson(store, { account, name: nameFrom(email), role: 'owner' })
  // An owner may have given the address to somebody meanwhile.
  return (await setEmail(store, person, email, true)) ? { ...person, email, isEmailVerified: true } : findPersonByEmail(store, email)
}

/** Named as the address; with a number where another account has the name. */
const addAccount = async ({ store, clock }: SignUpServices, plan: string, email: string): Promise<string> => {
  const accounts = new RecordedAccounts(store, clock, { kind: 'person', name: 'sign-up' })
  for (let i = 1; ; i += 1) {
    const id = generateAccountId()
    const name = i === 1 ? nameFrom(email) : `${nameFrom(email).slice(0, maxNameChars - 5)}-${i}`
    if (await accounts.addAccount({ id, name, plan, created: clock.now() })) return id
  }
}

/** The letters that names of accounts may have. */
const nameFrom = (email: string): string => email.replaceAll(/[^\w.@-]/g, '-').slice(0, maxNameChars)

const maxNameChars = 64
/** Of a gateway that dies while it makes an account. */
const lockTtlMs = 60_000
