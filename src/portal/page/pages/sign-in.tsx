import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { session } from '../api.ts'
import type { Session } from '../api.ts'
import { Notice, TextField } from '../components/controls.tsx'
import { get, request } from '../request.ts'
import { navigate } from '../router.ts'
import { texts } from '../texts.ts'
import { useSubmit } from '../use-submit.ts'

const text = texts.signIn

/** Where nobody is signed in. The token of a sign-in link follows # and goes to the gateway by POST. */
export const SignIn = () => {
  const error = useSignal<string | undefined>(undefined)
  const options = useSignal<SignInOptions | undefined>(undefined)
  const token = location.hash.slice(1)
  useEffect(() => {
    get<SignInOptions>('/sign-in-options').then(
      found => (options.value = found),
      () => undefined,
    )
    if (token === '') return
    // The link must not stay in the history of the browser.
    history.replaceState(null, '', '/sign-in')
    request<Session>('POST', '/session', { token }).then(
      started => {
        session.value = started
        navigate('/')
      },
      (reason: Error) => {
        error.value = reason.message
      },
    )
  }, [])
  return (
    <main class="sign-in" id="content">
      <h1>{text.title}</h1>
      {token !== '' && error.value === undefined && <p>{text.working}</p>}
      <Notice text={error.value} />
      <p>{text.how}</p>
      <p>{text.operator}</p>
      <pre tabIndex={0}>tollgate accounts link NAME</pre>
      {options.value?.email === true && <LinkByEmail isSignUp={options.value.signUp} />}
    </main>
  )
}

interface SignInOptions {
  readonly email: boolean
  readonly signUp: boolean
}

const LinkByEmail = ({ isSignUp }: { readonly isSignUp: boolean }) => {
  const { answer, error, isSending, submit } = useSubmit(values =>
    request('POST', '/sign-in-links', { email: String(values.get('email')).trim() }),
  )
  return (
    <form class="card form" onSubmit={submit} aria-label={text.sendLink}>
      <p>{text.byEmail}</p>
      {isSignUp && <p>{text.signUp}</p>}
      <TextField label={text.email} name="email" type="email" required error={error.value} />
      <button type="submit" disabled={isSending.value}>
        {text.sendLink}
      </button>
      {answer.value !== undefined && <p role="status">{text.linkSent}</p>}
    </form>
  )
}
