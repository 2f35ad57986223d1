import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import type { SignInChoiceJson } from '../../people/proven-addresses.ts'
import type { SignInJson, SignInOptions } from '../../routes/session.ts'
import { now } from '../clock.ts'
import { Notice, TextField } from '../components/controls.tsx'
import { useSending, useSubmit } from '../components/form.tsx'
import { Brand, Support, ThemeSwitch } from '../components/shell.tsx'
import { connectionProblem, request, useRequest } from '../request.ts'
import type { RequestError } from '../request.ts'
import { navigate } from '../router.ts'
import { announceSignIn } from '../session-end.ts'
import { ChooseAccount } from './choose-account.tsx'
import { loadSession, refusedSignIn, session } from './developer-session.ts'
import { signedOutTexts } from './signed-out-texts.ts'

const text = signedOutTexts.signIn

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
const signIn = async (attempt: SignInAttempt): Promise<SignInJson> => {
  try {
    return await request<SignInJson>('POST', attempt.path, attempt.body)
  } catch (reason) {
    if (connectionProblem.value === undefined) throw reason
    await new Promise(resolve => setTimeout(resolve, retryIntervalMs))
    return signIn(attempt)
  }
}

/** Where nobody is signed in. */
export const SignIn = () => {
  const attempt = useRef(readAttempt()).current
  const error = useSignal<string | undefined>(undefined)
  const isLeaving = useSignal(false)
  const options = useRequest<SignInOptions>('/sign-in-options').data
  const choice = useSignal<SignInChoiceJson | undefined>(undefined)
  const question = useSignal<SignInQuestion | undefined>(undefined)
  const mailedTo = useSignal<string | undefined>(undefined)
  const showPortal = (): void => navigate('/')
  // Who was signed in before is it still.
  const goBack = (): void => void loadSession().catch(() => undefined)
  const run = async (sent: SignInAttempt): Promise<void> => {
    try {
      const answer = await signIn(sent)
      if ('invitations' in answer) {
        choice.value = answer
        return
      }
      session.value = answer
      announceSignIn()
      showPortal()
    } catch (reason) {
      const { code, message } = reason as RequestError // request() throws nothing else
      question.value = code === 'other-session' ? { message, attempt: sent } : undefined
      if (question.value !== undefined) return
      error.value = refusedSignIn.value = message
      if (choice.value === undefined) goBack()
    }
  }
  const choose = (chosen: object): void => void run({ path: '/session', body: { token: choice.value?.token, ...chosen } })
  const decline = async (invitation: string): Promise<void> => {
    try {
      await request('POST', '/declined-invitations', { token: choice.value?.token, invitation })
      error.value = undefined
      const { invitations = [] } = choice.value ?? {}
      if (choice.value !== undefined) choice.value = { ...choice.value, invitations: invitations.filter(({ id }) => id !== invitation) }
    } catch (reason) {
      error.value = (reason as Error).message // request() throws nothing else
    }
  }
  useEffect(() => {
    if (attempt === undefined) return
    // The link must not stay in the history of the browser.
    history.replaceState(null, '', '/sign-in')
    void run(attempt)
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
  if (question.value !== undefined) {
    const { message, attempt: asked } = question.value
    const stay = (): void => {
      goBack()
      showPortal()
    }
    return <SwitchPerson message={message} goOn={() => void run({ ...asked, body: { ...asked.body, switchPerson: true } })} stay={stay} />
  }
  if (choice.value !== undefined) {
    return (
      <ChooseAccount
        choice={choice.value}
        error={error.value ?? connectionProblem.value?.text}
        accept={invitation => choose({ invitation })}
        decline={invitation => void decline(invitation)}
        useOwnAccount={() => choose({ ownAccount: true })}
      />
    )
  }
  const { email: canMail, provider, signUp = false, status } = options.value ?? {}
  if (mailedTo.value !== undefined)
    return <LinkSent to={mailedTo.value} isSignUp={signUp} useAnother={() => (mailedTo.value = undefined)} />
  const hasProvider = typeof provider === 'string'
  return (
    <main class="sign-in" id="content">
      <Brand />
      <h1>{text.title}</h1>
      <p class="lead">{text.what}</p>
      {attempt !== undefined && error.value === undefined && <p role="status">{text.working}</p>}
      <Notice text={error.value ?? connectionProblem.value?.text} />
      {hasProvider && (
        <button type="button" class="wide-button" onClick={() => void goToProvider()}>
          {text.withProvider} {provider}
        </button>
      )}
      {hasProvider && canMail && <p class="or">{text.or}</p>}
      {canMail && <LinkByEmail isSignUp={signUp} isSecond={hasProvider} onSent={email => (mailedTo.value = email)} />}
      {canMail === false && <p class="lead">{text.how}</p>}
      {/* Where nobody can sign in by themselves, who reads this may well be the operator. */}
      {canMail === false && provider === null && (
        <details class="lead">
          <summary>{text.operator}</summary>
          <p>{text.operatorHelp}</p>
          <pre tabIndex={0}>tollgate accounts link NAME</pre>
        </details>
      )}
      <div class="sign-in-end">
        {status === true && <a href="/status">{signedOutTexts.status.link}</a>}
        <Support />
        <ThemeSwitch />
      </div>
    </main>
  )
}

interface SignInQuestion {
  /** Who is signed in, and whom the link signs in. */
  readonly message: string
  readonly attempt: SignInAttempt
}

/** Before a link takes the place of somebody who is signed in: they could work on in an account that is not theirs. */
const SwitchPerson = ({ message, goOn, stay }: { readonly message: string; goOn(): void; stay(): void }) => (
  <main class="sign-in" id="content">
    <Brand />
    <h1>{text.switchPerson}</h1>
    <p role="status">{message}</p>
    <p class="actions">
      <button type="button" class="quiet" onClick={stay}>
        {text.stay}
      </button>
      <button type="button" onClick={goOn}>
        {text.goOn}
      </button>
    </p>
  </main>
)

interface LinkByEmailProps {
  readonly isSignUp: boolean
  /** Another way to sign in comes first. */
  readonly isSecond: boolean
  onSent(email: string): void
}

const requestLink = (email: string) => request('POST', '/sign-in-links', { email })

const LinkByEmail = ({ isSignUp, isSecond, onSent }: LinkByEmailProps) => {
  const { error, isSending, submit } = useSubmit(async values => {
    const email = String(values.get('email')).trim()
    await requestLink(email)
    onSent(email)
  })
  return (
    <form class="card form" onSubmit={submit} aria-label={text.sendLink}>
      <TextField label={text.email} name="email" type="email" autocomplete="email" required error={error.value?.fieldMessage} />
      <button type="submit" class={isSecond ? 'quiet' : undefined} disabled={isSending.value}>
        {text.sendLink}
      </button>
      <p class="help">
        {isSignUp && text.signUp} {text.byEmail}
      </p>
    </form>
  )
}

const takeFocus = (element: HTMLElement | null): void => element?.focus()

/** Until then the mail is on its way; an address gets a few in an hour. */
const sendAgainAfterMs = 60_000

interface LinkSentProps {
  readonly to: string
  readonly isSignUp: boolean
  useAnother(): void
}

/** In place of the form: whether the address may sign in is said to nobody. */
const LinkSent = ({ to, isSignUp, useAnother }: LinkSentProps) => {
  const sentAt = useSignal(now.peek())
  const { error, isSending, sendOnce } = useSending()
  const isSentAgain = useSignal(false)
  const waitSeconds = Math.ceil((sentAt.value + sendAgainAfterMs - now.value) / 1_000)
  const sendAgain = (): void =>
    sendOnce(async () => {
      await requestLink(to)
      ;[sentAt.value, isSentAgain.value] = [now.peek(), true]
    })
  const { wait, open, signUp } = text.steps
  return (
    <main class="sign-in" id="content">
      <Brand />
      <h1 ref={takeFocus} tabIndex={-1}>
        {text.checkMail}
      </h1>
      <p role="status">
        {text.if} <strong>{to}</strong> {isSignUp ? text.linkSentToAnyone : text.linkSent}
      </p>
      <ul>
        {[wait, open, ...(isSignUp ? [signUp] : [])].map(step => (
          <li key={step}>{step}</li>
        ))}
      </ul>
      <Notice text={error.value?.message} />
      <p role="status">{isSentAgain.value && error.value === undefined && text.sentAgain}</p>
      <div class="buttons">
        <button type="button" disabled={waitSeconds > 0 || isSending.value} onClick={sendAgain}>
          {text.sendAgain}
          {waitSeconds > 0 && ` (${waitSeconds} s)`}
        </button>
        <button type="button" class="quiet" onClick={useAnother}>
          {text.another}
        </button>
      </div>
      <div class="sign-in-end">
        <Support />
        <ThemeSwitch />
      </div>
    </main>
  )
}
