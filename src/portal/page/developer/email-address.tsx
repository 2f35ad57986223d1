import { useSignal } from '@preact/signals'
import type { PersonJson } from '../../people/person-json.ts'
import { Badge } from '../components/badge.tsx'
import { formatTime } from '../format.ts'
import { request } from '../request.ts'
import { accountTexts } from './account-texts.ts'

const text = accountTexts.access

interface EmailAddressProps {
  readonly person: PersonJson
  /** Whether mail that was sent to the address can be sent again. */
  readonly canMail: boolean
}

/** The address of a person, and what it waits for. */
export const EmailAddress = ({ person, canMail }: EmailAddressProps) => {
  const { email, emailVerified, newEmail } = person
  return (
    <>
      {(email !== null || newEmail === null) && (
        <div>
          {email ?? '–'} {newEmail === null && email !== null && !emailVerified && <State person={person} />}
        </div>
      )}
      {newEmail !== null ? (
        <Waiting person={person} address={newEmail} canMail={canMail} />
      ) : (
        email !== null && !emailVerified && <Waiting person={person} canMail={canMail} />
      )}
    </>
  )
}

const State = ({ person: { invitedUntil } }: Pick<EmailAddressProps, 'person'>) => (
  <Badge tone="warn">{invitedUntil === null ? text.notConfirmed : text.invited}</Badge>
)

/** Of another address, or of the one above. */
const Waiting = ({ person, address, canMail }: EmailAddressProps & { readonly address?: string }) => {
  const { id, email, invitedUntil } = person
  const outcome = useSignal('')
  const mail =
    invitedUntil === null
      ? { path: 'email-confirmation', label: text.confirmAgain, sent: text.confirmationSent }
      : { path: 'invitation', label: text.inviteAgain, sent: text.invitationSent }
  const mailed = address ?? email
  const send = () =>
    request('POST', `/people/${id}/${mail.path}`).then(
      () => (outcome.value = `${mail.sent} ${mailed}`),
      (reason: Error) => (outcome.value = reason.message),
    )
  return (
    <>
      {address !== undefined && (
        <div>
          {address} <State person={person} />
        </div>
      )}
      {invitedUntil !== null && (
        <p class="help">
          {text.until} {formatTime(invitedUntil)}
        </p>
      )}
      {canMail && (
        <button type="button" class="quiet small" aria-label={`${mail.label}: ${mailed}`} onClick={() => void send()}>
          {mail.label}
        </button>
      )}
      <span role="status">{outcome.value}</span>
    </>
  )
}
