import { signal } from '@preact/signals'
import type { Signal } from '@preact/signals'

/** The session has ended while somebody was typing: the page is hidden, with what was typed, until they sign in again. */
export const hasEnded = signal(false)

const hasTypedText = (): boolean =>
  [...document.querySelectorAll<HTMLInputElement>('main input')].some(({ value, defaultValue }) => value !== defaultValue)

/** Nobody is signed in any more, as a response says. */
export const endSession = (session: Signal<unknown>): void => {
  hasEnded.value = Boolean(session.value) && hasTypedText()
  if (!hasEnded.value) session.value = null
}

/** To all tabs. */
const signOuts = new BroadcastChannel('tollgate-sign-out')

const forget = (session: Signal<unknown>): void => {
  hasEnded.value = false
  session.value = null
}

/** Somebody signs out by this request: nothing of them may stay, in no tab. One that finds nobody signed in is as good. */
export const signOutBy = async (sent: Promise<unknown>, session: Signal<unknown>): Promise<void> => {
  try {
    await sent
  } catch (reason) {
    if ((reason as { readonly status: number }).status !== 401) return // send() throws nothing without a status
  }
  forget(session)
  signOuts.postMessage('')
}

/** Signs out here when somebody signs out in another tab, and in again when they sign in there. */
export const followOtherTabs = (session: Signal<unknown>, load: () => Promise<void>): void => {
  signOuts.addEventListener('message', () => forget(session))
  document.addEventListener('visibilitychange', () => {
    const isSignedOut = hasEnded.value || session.value === null
    if (isSignedOut && document.visibilityState === 'visible') void load().catch(() => undefined)
  })
}
