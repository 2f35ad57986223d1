import { Secret } from '../plugin/secret.ts'
import type { RecordedAccounts } from '../services/accounts/recorded-accounts.ts'
import type { Clock } from '../services/clock.ts'
import type { RecordStore, StoredRecord } from '../store/record-store.ts'
import { hourMs, isoDate } from '../util/dates.ts'
import { isJsonObject } from '../util/json.ts'
import type { Json } from '../util/json.ts'
import type { SendMail } from './mailer.ts'
import type { Invitation } from './invitations.ts'
import { findPerson, verifyEmail } from './people.ts'
import type { LinkedIdentity, Person } from './people.ts'
import { generateToken, hashToken } from './random-tokens.ts'

// Links with a token that is used up by opening them: to sign in, to answer an invitation or sign up, and to confirm an e-mail address.

/** How long a sign-in link may be used. */
export const signInLinkTtlMs = 24 * hourMs

/** A text that signs the person in once. Only its hash is stored. Who uses one that was mailed reads the mail of that address. */
export const createSignInToken = async (store: RecordStore, clock: Clock, { id, account }: Person, mailedTo?: string): Promise<Secret> => {
  const token = generateToken()
  const value = mailedTo === undefined ? id : { person: id, mailedTo }
  await store.putRecord('sign-in-link', { id: hashToken(token), account, value, expires: clock.now() + signInLinkTtlMs })
  return new Secret(token)
}

/** The person whom the token signs in. The token cannot be used again. One that was mailed to an address ends with that. */
export const useSignInToken = async (store: RecordStore, token: string): Promise<Person | undefined> => {
  const record = await store.takeRecord('sign-in-link', hashToken(token))
  const person = await personOfLink(store, record)
  return person !== undefined && isJsonObject(record?.value) ? verifyEmail(store, person) : person
}

/** The person whom the token would sign in: it is not used up. */
export const findSignInToken = async (store: RecordStore, token: string): Promise<Person | undefined> =>
  personOfLink(store, await store.findRecord('sign-in-link', hashToken(token)))

const personOfLink = async (store: RecordStore, { value }: Partial<StoredRecord> = {}): Promise<Person | undefined> => {
  if (!isJsonObject(value)) return typeof value === 'string' ? findPerson(store, value) : undefined
  const person = await findPerson(store, String(value['person']))
  return person?.email === value['mailedTo'] ? person : undefined
}

/** An e-mail address that somebody has shown to be theirs, by a link that was mailed there or at a provider, and that no person has. */
export interface ProvenAddress {
  readonly email: string
  /** By the link of an invitation: nothing happens unasked, also when the invitation is withdrawn by then. */
  readonly isInvited?: boolean
  /** Of the provider that has verified the address: from then on it signs in as the person. */
  readonly identity?: LinkedIdentity
}

/** A text with which whoever has shown that an address is theirs joins an account or makes one, once. Only its hash is stored. */
export const createAddressToken = async (store: RecordStore, clock: Clock, address: ProvenAddress): Promise<Secret> => {
  const token = generateToken()
  const value = JSON.parse(JSON.stringify(address)) as Json // plain data
  await store.putRecord('sign-up', { id: hashToken(token), account: '', value, expires: clock.now() + signInLinkTtlMs })
  return new Secret(token)
}

/** The address that the token has proven: it is not used up. */
export const findAddressToken = async (store: RecordStore, token: string): Promise<ProvenAddress | undefined> =>
  toProvenAddress(await store.findRecord('sign-up', hashToken(token)))

/** Uses up the token, unless `action` rejects: then it can be used again. Undefined where it is none. */
export const withAddressToken = async <T>(
  store: RecordStore,
  token: string,
  action: (address: ProvenAddress) => Promise<T>,
): Promise<T | undefined> => {
  const record = await store.takeRecord('sign-up', hashToken(token))
  const address = toProvenAddress(record)
  if (record === undefined || address === undefined) return undefined
  try {
    return await action(address)
  } catch (error) {
    await store.putRecord('sign-up', record)
    throw error
  }
}

/** Written by createAddressToken() alone. */
const toProvenAddress = (record: StoredRecord | undefined): ProvenAddress | undefined =>
  isJsonObject(record?.value) ? (record.value as unknown as ProvenAddress) : undefined

/** The URL of a sign-in link. The token is a fragment, which browsers do not send: it appears in no access log. */
export const signInUrl = (portalUrl: string, token: Secret): string => `${portalUrl.replace(/\/$/, '')}/sign-in#${token.reveal()}`

/** What makes a link: a command, or the admin listener. */
interface LinkServices {
  readonly store: RecordStore
  readonly accounts: RecordedAccounts
  readonly clock: Clock
}

/** The URL of a new sign-in link, which is in the log of changes. */
export const createSignInLink = async ({ store, accounts, clock }: LinkServices, portalUrl: string, person: Person): Promise<string> => {
  const token = await createSignInToken(store, clock, person)
  await accounts.recordOf(person.account, { action: 'link-created', target: person.id, after: { name: person.name, role: person.role } })
  return signInUrl(portalUrl, token)
}

/** How long the link of a confirmation may be used. */
const confirmationTtlMs = 24 * hourMs

interface MailServices {
  readonly store: RecordStore
  readonly clock: Clock
  /** The URL of the portal. */
  readonly url: string
  /** Undefined without a mail server. */
  readonly sendMail: SendMail | undefined
}

/**
 * Mails the person a link by which they confirm that the address is theirs: alerts go to no other. The link signs nobody in: the address
 * may be mistyped. Without a mail server nothing is sent.
 */
export const mailConfirmation = async (
  { store, clock, url, sendMail }: MailServices,
  { id, account }: Person,
  email: string,
): Promise<void> => {
  if (sendMail === undefined) return
  const token = new Secret(generateToken())
  const record = { id: hashToken(token.reveal()), account, value: { person: id, email }, expires: clock.now() + confirmationTtlMs }
  await store.putRecord('email-confirmation', record)
  await sendMail({
    to: email,
    subject: 'Confirm your e-mail address for Tollgate',
    text:
      'An account of Tollgate names this e-mail address. Open this link to confirm that it is yours: alerts about the use of credits are ' +
      `sent to confirmed addresses only. The link works once, within ${confirmationTtlMs / hourMs} hours.\n\n` +
      // A fragment is in no access log.
      `${url}/confirm-email#${token.reveal()}\n\n` +
      'If you do not know this account, ignore this message.\n',
  })
}

/** Mails an invitation, with a link to answer it: its address is proven by that. Without a mail server nothing is sent. */
export const mailInvitation = async (
  { store, clock, url, sendMail }: MailServices,
  accountName: string,
  { email, inviter, role, expires }: Invitation,
): Promise<void> => {
  if (sendMail === undefined) return
  const token = await createAddressToken(store, clock, { email, isInvited: true })
  await sendMail({
    to: email,
    subject: 'Invitation to an account of Tollgate',
    text:
      `${inviter} invites you to the account ${accountName} of Tollgate, as ${role}.\n\n` +
      `Open this link to join the account, or to decline: nothing happens before you choose. The link works once, within ` +
      `${signInLinkTtlMs / hourMs} hours.\n\n${signInUrl(url, token)}\n\n` +
      `Afterwards, until ${isoDate(expires)}, ask for another link with this address at ${url}/sign-in\n\n` +
      'If you do not know who invites you, ignore this message.\n',
  })
}

/** Uses up the token of a confirmation. Resolves with the address; undefined when the token is none, or the address is another by now. */
export const confirmEmail = async (store: RecordStore, token: string): Promise<string | undefined> => {
  const record = await store.takeRecord('email-confirmation', hashToken(token))
  if (!isJsonObject(record?.value)) return undefined
  const [person, email] = [await findPerson(store, String(record.value['person'])), String(record.value['email'])]
  if (person?.email !== email) return undefined
  return (await verifyEmail(store, person))?.email
}
