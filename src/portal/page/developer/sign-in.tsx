import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { session } from '../api.ts'
import type { Session, SignInOptions } from '../api.ts'
import { Notice, TextField } from '../components/controls.tsx'
import { get, request } from '../request.ts'
import { navigate } from '../router.ts'
import { texts } from '../texts.ts'
import { useSubmit } from '../use-submit.ts'

const text = texts.signIn

/** What signs somebody in: the token of a sign-in link, which follows #, or the query with which a provider sent the browser back. */
const readAttempt = (): { readonly path: string; readonly body: object } | undefined => {
  const [token, query] = [location.hash.slice(1), location.search.slice(1)]
  if (token !== '') return { path: '/session', body: { token } }
  return query === '' ? undefined : { path: '/oidc/session', body: { query } }
}

/** Where nobody is signed in. */
export const SignIn = () => {
  const attempt = useRef(readAttempt()).current
  const error = useSignal<string | undefined>(undefined)
  const options = useSignal<SignInOptions | undefined>(undefined)
  useEffect(() => {
    get<SignInOptions>('/sign-in-options').then(
      found => (options.value = found),
      () => undefined,
    )
    if (attempt === undefined) return
    // The link must not stay in the history of the browser.
    history.replaceState(null, '', '/sign-in')
    request<Session>('POST', attempt.path, attempt.body).then(
      started => {
        session.value = started
        navigate('/')
      },
      (reason: Error) => {
        error.value = reason.message
      },
    )
  }, [])
  const goToProvider = () =>
    void request<{ url: string }>('POST', '/oidc/authorization-url').then(
      ({ url }) => location.assign(url),
      (reason: Error) => {
        error.value = reason.message
      },
    )
  return (
    <main class="sign-in" id="content">
      <h1>{text.title}</h1>
      {attempt !== undefined && error.value === undefined && <p>{text.working}</p>}
      <Notice text={error.value} />
      {typeof options.value?.provider === 'string' && (
        <button type="button" onClick={goToProvider}>
          {text.withProvider} {options.value.provider}
        </button>
      )}
      <p>{text.how}</p>
      <p>{text.operator}</p>
      <pre tabIndex={0}>tollgate accounts link NAME</pre>
      {options.value?.email === true && <LinkByEmail isSignUp={options.value.signUp} />}
    </main>
  )
}

const LinkByEmail = ({ isSignUp }: { readonly isSignUp: boolean }) => {
  const { answer, error, isSending, submit } = useSubmit(values =>
    request('POST', '/sign-in-links', { email: String(values.get('email')).trim() }),
  )
  return (
    <form class="card form" onSubmit={submit} aria-label={text.sendLink}>
      <p>{text.byEmail}</p>
      {isSignUp && <p>{text.signUp}</p>}
      <TextField label={text.email} name="email" type="email" required error={error.value?.message} />
      <button type="submit" disabled={isSending.value}>
        {text.sendLink}
      </button>
      {answer.value !== undefined && <p role="status">{text.linkSent}</p>}
    </form>
  )
}
