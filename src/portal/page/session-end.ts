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

type TabMessage = 'signed in' | 'signed out'

/** All tabs of the browser. */
const tabs = new BroadcastChannel('tollgate-session')

const broadcast = (message: TabMessage): void => tabs.postMessage(message)

/** The page is loaded anew: nothing stays in memory, such as a key that was just created. */
const forget = (): void => location.reload()

/** Somebody signs out by this request: nothing of them may stay, in no tab. One that finds nobody signed in is as good. */
export const signOutBy = async (sent: Promise<unknown>): Promise<void> => {
  try {
    await sent
  } catch (reason) {
    if ((reason as { readonly status: number }).status !== 401) return // send() throws nothing without a status
  }
  broadcast('signed out')
  forget()
}

/** Somebody has signed in here. */
export const announceSignIn = (): void => broadcast('signed in')

/** Signs out here when somebody signs out in another tab, and asks who is signed in when somebody may have signed in there. */
export const followOtherTabs = (session: Signal<unknown>, load: () => Promise<void>): void => {
  // A sign-in that has begun here says itself whose session it is.
  const mayHoldSession = (): boolean => session.value !== undefined
  const reload = (): void => void (mayHoldSession() && load().catch(() => undefined))
  tabs.addEventListener('message', ({ data }: MessageEvent<TabMessage>) => {
    if (data === 'signed in') reload()
    else if (mayHoldSession()) forget()
  })
  document.addEventListener('visibilitychange', () => {
    if (document.visibilityState === 'visible') reload()
  })
}
