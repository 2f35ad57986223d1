import { randomBytes } from 'node:crypto'
import { Secret } from '../plugin/secret.ts'
import type { RecordStore } from '../store/record-store.ts'
import { hourMs } from '../util/dates.ts'
import { isJsonObject } from '../util/json.ts'
import { findPerson, hashToken, verifyEmail } from './people.ts'
import type { Person } from './people.ts'
import type { PortalServices } from './portal-services.ts'

/** How long the link of a confirmation may be used. */
const confirmationTtlMs = 24 * hourMs

/**
 * Mails the person a link by which they confirm that the address is theirs: alerts go to no other. The link signs nobody in: the address
 * may be mistyped. Without a mail server nothing is sent.
 */
export const mailConfirmation = async (
  { store, clock, url, sendMail }: Pick<PortalServices, 'store' | 'clock' | 'url' | 'sendMail'>,
  { id, account }: Person,
  email: string,
): Promise<void> => {
  if (sendMail === undefined) return
  const token = new Secret(randomBytes(tokenBytes).toString('base64url'))
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

/** Uses up the token of a confirmation. Resolves with the address; undefined when the token is none, or the address is another by now. */
export const confirmEmail = async (store: RecordStore, token: string): Promise<string | undefined> => {
  const record = await store.takeRecord('email-confirmation', hashToken(token))
  if (!isJsonObject(record?.value)) return undefined
  const [person, email] = [await findPerson(store, String(record.value['person'])), String(record.value['email'])]
  if (person?.email !== email) return undefined
  return (await verifyEmail(store, person))?.email
}

const tokenBytes = 32
