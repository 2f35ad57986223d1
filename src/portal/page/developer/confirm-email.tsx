import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import type { EmailConfirmationJson } from '../../routes/email-confirmations.ts'
import { Notice } from '../components/controls.tsx'
import { useSubmit } from '../components/form.tsx'
import { Brand } from '../components/shell.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { request } from '../request.ts'
import { signedOutTexts } from './signed-out-texts.ts'

const text = signedOutTexts.confirmEmail

/** Where the link of a confirmation leads. A button confirms: what scans mail opens links. */
export const ConfirmEmail = () => {
  const token = useRef(location.hash.slice(1)).current
  const found = useSignal<EmailConfirmationJson | undefined>(undefined)
  const failed = useSignal<string | undefined>(undefined)
  const { answer, error, isSending, submit } = useSubmit(() =>
    request<{ readonly email: string }>('POST', '/email-confirmations', { token }),
  )
  useEffect(() => {
    void request<EmailConfirmationJson>('POST', '/email-confirmations/lookup', { token }).then(
      confirmation => (found.value = confirmation),
      (reason: Error) => (failed.value = reason.message),
    )
  }, [])
  return (
    <main class="sign-in" id="content">
      <Brand />
      <h1>{text.title}</h1>
      <Notice text={error.value?.message ?? failed.value} />
      {found.value === undefined && failed.value === undefined && <Skeleton lines={3} />}
      {found.value !== undefined && answer.value === undefined && (
        <form class="card form" onSubmit={submit} aria-label={text.title}>
          <Question confirmation={found.value} />
          <button type="submit" disabled={isSending.value}>
            {text.confirm}
          </button>
        </form>
      )}
      {/* There before what it says: a region that comes with its text is not announced everywhere. */}
      <div role="status">
        {answer.value !== undefined && (
          <p>
            {text.confirmed} {answer.value.email}
          </p>
        )}
      </div>
      <p>{failed.value === undefined ? <a href="/">{text.toDashboard}</a> : <a href="/profile">{text.another}</a>}</p>
    </main>
  )
}

/** Nobody confirms for an account that they do not know. */
const Question = ({
  confirmation: { email, asker, account, person, role, previous },
}: {
  readonly confirmation: EmailConfirmationJson
}) => (
  <>
    <p>
      <strong>{asker}</strong> {text.entered} <strong>{email}</strong> {text.for} <strong>{person}</strong>, {role} {text.of}{' '}
      <strong>{account}</strong>.
    </p>
    <p>{text.how}</p>
    {previous !== null && (
      <p>
        {text.replaces} {previous}
      </p>
    )}
  </>
)
