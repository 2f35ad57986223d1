import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { request, session } from '../api.ts'
import type { Session } from '../api.ts'
import { Notice } from '../components/controls.tsx'
import { navigate } from '../router.ts'
import { texts } from '../texts.ts'

const text = texts.signIn

/** Where nobody is signed in. The token of a sign-in link follows # and goes to the gateway by POST. */
export const SignIn = () => {
  const error = useSignal<string | undefined>(undefined)
  const token = location.hash.slice(1)
  useEffect(() => {
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
    </main>
  )
}
