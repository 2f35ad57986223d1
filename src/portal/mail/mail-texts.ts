import { isoDate, isoTimeOrNull } from '../../util/dates.ts'
import { nameOf } from '../brand.ts'
import type { NamedBrand } from '../brand.ts'
import type { Mail } from './mailer.ts'

// What each mail says, but for alerts, which webhooks get too. A mail that nobody asked for must do no harm: it says what to do then.

/** A mail before it is known who gets it. */
type MailText = Omit<Mail, 'to'>

/** A link that works once. */
interface OneTimeLink {
  readonly url: string
  /** How long it works. */
  readonly hours: number
}

/** Whom a link signs in: a person, somebody who was invited, or somebody who makes an account. */
type SignInPurpose = 'sign-in' | 'invitation' | 'sign-up'

export const signInText = (brand: NamedBrand | undefined, purpose: SignInPurpose, { url, hours }: OneTimeLink): MailText => ({
  subject: purpose === 'sign-up' ? `Create your ${nameOf(brand)} account` : `Sign in to ${nameOf(brand)}`,
  text:
    `Open this link to ${purposes[purpose]}. It works once, within ${hours} hours.\n\n${url}\n\n` +
    'If you did not ask for it, ignore this message.\n',
})

const purposes: Readonly<Record<SignInPurpose, string>> = {
  'sign-in': 'sign in',
  invitation: 'sign in and answer the invitation that you have',
  'sign-up': 'create your account',
}

interface InvitationText {
  readonly inviter: string
  readonly account: string
  readonly role: string
  /** In milliseconds since 1970. */
  readonly expires: number
  readonly signInPage: string
}

export const invitationText = (
  brand: NamedBrand | undefined,
  { inviter, account, role, expires, signInPage }: InvitationText,
  { url, hours }: OneTimeLink,
): MailText => ({
  subject: `Invitation to an account of ${nameOf(brand)}`,
  text:
    `${inviter} invites you to the account ${account} of ${nameOf(brand)}, as ${role}.\n\n` +
    `Open this link to join the account, or to decline: nothing happens before you choose. The link works once, within ` +
    `${hours} hours.\n\n${url}\n\n` +
    `Afterwards, until ${isoDate(expires)}, ask for another link with this address at ${signInPage}\n\n` +
    'If you do not know who invites you, ignore this message.\n',
})

interface PersonOfAccount {
  readonly name: string
  readonly account: string
}

/** `asker` has entered the address. */
export const confirmationText = (
  brand: NamedBrand | undefined,
  { name, account, role, asker }: PersonOfAccount & { readonly role: string; readonly asker: string },
  { url, hours }: OneTimeLink,
): MailText => ({
  subject: `Confirm your e-mail address for ${nameOf(brand)}`,
  text:
    `${asker} has entered this e-mail address for ${name}, ${role} of the account ${account} of ${nameOf(brand)}.\n\n` +
    'Open this link to confirm that you are this person: from then on the address signs in to that account, and owners get alerts there. ' +
    `Nothing happens before you confirm. The link works once, within ${hours} hours.\n\n${url}\n\n` +
    'If you do not know this account, ignore this message.\n',
})

/** For the address before. */
export const emailChangedText = (
  brand: NamedBrand | undefined,
  { name, account, email }: PersonOfAccount & { readonly email: string },
): MailText => ({
  subject: `Your e-mail address for ${nameOf(brand)} was changed`,
  text:
    `${name} of the account ${account} of ${nameOf(brand)} signs in with the address ${email} now, and no longer with this one.\n\n` +
    'If this was not you, ask an owner of the account, or the operator, for help.\n',
})

export const approvalText = (brand: NamedBrand | undefined, account: string, dashboardUrl: string): MailText => ({
  subject: `Your ${nameOf(brand)} account is approved`,
  text: `The account ${account} is approved: its keys are accepted from now on.\n\n${dashboardUrl}\n`,
})

interface DeletionText {
  readonly author: string
  readonly account: string
  /** In milliseconds since 1970. */
  readonly deleteAt: number | undefined
  readonly settingsPage: string
}

export const deletionText = (brand: NamedBrand | undefined, { author, account, deleteAt, settingsPage }: DeletionText): MailText => ({
  subject: `${nameOf(brand)}: the account ${account} was deleted`,
  text:
    `${author} has deleted the account ${account}. Its calls are refused; its keys and people are removed at ${isoTimeOrNull(deleteAt)}.\n\n` +
    `Until then, owners of the account undo that here: ${settingsPage}\n`,
})
