import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import type { SessionJson, SignInOptions } from '../../routes/session.ts'
import { Notice, TextField } from '../components/controls.tsx'
import { useSubmit } from '../components/form.tsx'
import { connectionProblem, request, useRequest } from '../request.ts'
import { navigate } from '../router.ts'
import { announceSignIn } from '../session-end.ts'
import { texts } from '../texts.ts'
import { loadSession, refusedSignIn, session } from './developer-session.ts'

const text = texts.signIn

interface SignInAttempt {
  readonly path: string
  readonly body: object
}

/** What signs somebody in: the token of a sign-in link, which follows #, or the query with which a provider sent the browser back. */
const readAttempt = (): SignInAttempt | undefined => {
  const [token, query] = [location.hash.slice(1), location.search.slice(1)]
  if (token !== '') return { path: '/session', body: { token } }
  return query === '' ? undefined : { path: '/oidc/session', body: { query } }
}

const retryIntervalMs = 3_000

/** Signs in once the gateway and its store are reachable: the link has left the address, so that a reload would not try it again. */
const signIn = async (attempt: SignInAttempt): Promise<SessionJson> => {
  try {
    return await request<SessionJson>('POST', attempt.path, attempt.body)
  } catch (reason) {
    if (connectionProblem.value === undefined) throw reason
    await new Promise(resolve => setTimeout(resolve, retryIntervalMs))
    return signIn(attempt)
  }
}

/** In another tab: in this one, a link or a provider would load another page in place of what was typed. */
export const SignInAgain = () => (
  <main class="sign-in">
    <h1>{text.title}</h1>
    <Notice text={connectionProblem.value ?? text.ended} />
    <p>
      <a href="/" target="_blank" rel="noopener">
        {text.inAnotherTab}
      </a>
    </p>
  </main>
)

/** Where nobody is signed in. */
export const SignIn = () => {
  const attempt = useRef(readAttempt()).current
  const error = useSignal<string | undefined>(undefined)
  const isLeaving = useSignal(false)
  const options = useRequest<SignInOptions>('/sign-in-options').data
  useEffect(() => {
    if (attempt === undefined) return
    // The link must not stay in the history of the browser.
    history.replaceState(null, '', '/sign-in')
    signIn(attempt).then(
      started => {
        session.value = started
        announceSignIn()
        navigate('/')
      },
      (reason: Error) => {
        error.value = refusedSignIn.value = reason.message
        // Who was signed in before is it still.
        void loadSession().catch(() => undefined)
      },
    )
  }, [])
  const goToProvider = async (): Promise<void> => {
    // A second sign-in would take the cookie of the first one away.
    if (isLeaving.value) return
    isLeaving.value = true
    try {
      location.assign((await request<{ readonly url: string }>('POST', '/oidc/authorization-url')).url)
    } catch (reason) {
      error.value = (reason as Error).message // request() throws nothing else
      isLeaving.value = false
    }
  }
  return (
    <main class="sign-in" id="content">
      <h1>{text.title}</h1>
      {attempt !== undefined && error.value === undefined && <p>{text.working}</p>}
      <Notice text={error.value ?? connectionProblem.value} />
      {typeof options.value?.provider === 'string' && (
        <button type="button" onClick={() => void goToProvider()}>
          {text.withProvider} {options.value.provider}
        </button>
      )}
      {options.value?.email === true && <LinkByEmail isSignUp={options.value.signUp} />}
      <p>{text.how}</p>
      <p>{text.operator}</p>
      <pre tabIndex={0}>tollgate accounts link NAME</pre>
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
      <TextField label={text.email} name="email" type="email" autocomplete="email" required error={error.value?.message} />
      <button type="submit" disabled={isSending.value}>
        {text.sendLink}
      </button>
      <div role="status">{answer.value !== undefined && <p>{text.linkSent}</p>}</div>
    </form>
  )
}
