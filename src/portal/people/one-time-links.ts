import { Secret } from '../../plugin/secret.ts'
import type { Clock } from '../../services/clock.ts'
import type { RecordStore, StoredRecord } from '../../store/record-store.ts'
import { hourMs } from '../../util/dates.ts'
import { isJsonObject, toJson } from '../../util/json.ts'
import type { Brand } from '../brand.ts'
import { confirmationText, emailChangedText, invitationText, signInText } from '../mail/mail-texts.ts'
import type { SendMail } from '../mail/mailer.ts'
import type { Invitation } from './invitations.ts'
import { findPerson, setEmail, verifyEmail } from './people.ts'
import type { LinkedIdentity, Person } from './people.ts'
import { generateToken, hashToken } from './random-tokens.ts'
import type { ChangeServices, RecordServices } from '../record-services.ts'

// Links with a token that is used up by opening them: to sign in, to answer an invitation or sign up, and to confirm an e-mail address.

/** How long a sign-in link may be used. */
export const signInLinkHours = 24
const signInLinkTtlMs = signInLinkHours * hourMs

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
  await store.putRecord('sign-up', { id: hashToken(token), account: '', value: toJson(address), expires: clock.now() + signInLinkTtlMs })
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

/** The URL of a new sign-in link, which is in the log of changes. */
export const createSignInLink = async ({ store, accounts, clock }: ChangeServices, portalUrl: string, person: Person): Promise<string> => {
  const token = await createSignInToken(store, clock, person)
  await accounts.recordOf(person.account, { action: 'link-created', target: person.id, after: { name: person.name, role: person.role } })
  return signInUrl(portalUrl, token)
}

/** How long the link of a confirmation may be used. */
const confirmationTtlMs = 24 * hourMs

interface MailServices extends RecordServices {
  /** The URL of the portal. */
  readonly url: string
  /** Undefined without a mail server. */
  readonly sendMail: SendMail | undefined
  readonly brand?: Pick<Brand, 'name'> | undefined
}

/** Mails the person a link that signs them in. */
export const mailSignInLink = async (
  { store, clock, url, sendMail, brand }: MailServices,
  person: Person,
  email: string,
): Promise<boolean> => {
  if (sendMail === undefined) return false
  const link = { url: signInUrl(url, await createSignInToken(store, clock, person, email)), hours: signInLinkHours }
  return sendMail({ to: email, ...signInText(brand, 'sign-in', link) })
}

/** What the link of a confirmation says before it is used up. */
export interface EmailConfirmation {
  readonly person: Person
  readonly email: string
  /** Who has entered the address. */
  readonly asker: string
}

/**
 * Mails a link by which whoever reads the mail confirms that the address is theirs, and that the person is. The link signs nobody in: the
 * address may be mistyped. Resolves with false where the mail server did not accept the mail, or there is none.
 */
export const mailConfirmation = async (
  { store, clock, url, sendMail, brand }: MailServices,
  accountName: string,
  { person: { id, account, name, role }, email, asker }: EmailConfirmation,
): Promise<boolean> => {
  if (sendMail === undefined) return false
  const token = new Secret(generateToken())
  const record = { id: hashToken(token.reveal()), account, value: { person: id, email, asker }, expires: clock.now() + confirmationTtlMs }
  await store.putRecord('email-confirmation', record)
  // A fragment is in no access log.
  const link = { url: `${url}/confirm-email#${token.reveal()}`, hours: confirmationTtlMs / hourMs }
  return sendMail({ to: email, ...confirmationText(brand, { name, account: accountName, role, asker }, link) })
}

/** Undefined where the token is none, or the person has another address by now. It is not used up. */
export const findConfirmation = async (store: RecordStore, token: string): Promise<EmailConfirmation | undefined> =>
  toConfirmation(store, await store.findRecord('email-confirmation', hashToken(token)))

const toConfirmation = async (store: RecordStore, record: StoredRecord | undefined): Promise<EmailConfirmation | undefined> => {
  if (!isJsonObject(record?.value)) return undefined
  const { person: id, email: address, asker } = record.value
  const [person, email] = [await findPerson(store, String(id)), String(address)]
  return person === undefined || ![person.email, person.newEmail].includes(email) ? undefined : { person, email, asker: String(asker) }
}

/**
 * Uses up the token of a confirmation: the address is that of the person. Undefined when the token is none, or the person has another address
 * by now; `isTaken` where somebody else has the address.
 */
export const confirmEmail = async (
  store: RecordStore,
  token: string,
): Promise<(EmailConfirmation & { readonly isTaken: boolean }) | undefined> => {
  const found = await toConfirmation(store, await store.takeRecord('email-confirmation', hashToken(token)))
  return found && { ...found, isTaken: !(await setEmail(store, found.person, found.email, true)) }
}

/** Tells the address that was a person's, in case somebody else has changed that. */
export const mailEmailChanged = async (
  { sendMail, brand }: Pick<MailServices, 'sendMail' | 'brand'>,
  accountName: string,
  { person: { name, email: previous }, email }: EmailConfirmation,
): Promise<void> => {
  if (sendMail === undefined || previous === undefined) return
  await sendMail({ to: previous, ...emailChangedText(brand, { name, account: accountName, email }) })
}

/** Mails an invitation, with a link to answer it: its address is proven by that. Without a mail server nothing is sent. */
export const mailInvitation = async (
  { store, clock, url, sendMail, brand }: MailServices,
  accountName: string,
  { email, inviter, role, expires }: Invitation,
): Promise<void> => {
  if (sendMail === undefined) return
  const token = await createAddressToken(store, clock, { email, isInvited: true })
  const link = { url: signInUrl(url, token), hours: signInLinkHours }
  const invitation = { inviter, account: accountName, role, expires, signInPage: `${url}/sign-in` }
  await sendMail({ to: email, ...invitationText(brand, invitation, link) })
}
