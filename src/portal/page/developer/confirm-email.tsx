import { useRef } from 'preact/hooks'
import { Notice } from '../components/controls.tsx'
import { useSubmit } from '../components/form.tsx'
import { Brand } from '../components/shell.tsx'
import { request } from '../request.ts'
import { texts } from '../texts.ts'

const text = texts.confirmEmail

/** Where the link of a confirmation leads. A button confirms: what scans mail opens links. */
export const ConfirmEmail = () => {
  const token = useRef(location.hash.slice(1)).current
  const { answer, error, isSending, submit } = useSubmit(() =>
    request<{ readonly email: string }>('POST', '/email-confirmations', { token }),
  )
  return (
    <main class="sign-in" id="content">
      <Brand />
      <h1>{text.title}</h1>
      <Notice text={error.value?.message} />
      {answer.value === undefined ? (
        <form class="form" onSubmit={submit} aria-label={text.title}>
          <p>{text.how}</p>
          <button type="submit" disabled={isSending.value}>
            {text.confirm}
          </button>
        </form>
      ) : (
        <p role="status">
          {text.confirmed} {answer.value.email}
        </p>
      )}
      <p>
        <a href="/">{text.toDashboard}</a>
      </p>
    </main>
  )
}
