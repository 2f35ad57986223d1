import { computed, effect, signal } from '@preact/signals'
import type { AccountReport } from '../../routes/account.ts'
import type { SessionJson } from '../../routes/session.ts'
import { clockOffsetMs } from '../clock.ts'
import { get, isFirstRequest, onSignedOut, recordSignIn, reportConnection } from '../request.ts'
import { endSession, followOtherTabs, hasEnded } from '../session-end.ts'
import { developerTexts } from './developer-texts.ts'

/** Undefined: not known yet; null: nobody is signed in. */
export const session = signal<SessionJson | null | undefined>(undefined)

/** Why a sign-in was refused while another session lives on. */
export const refusedSignIn = signal<string | undefined>(undefined)

/** The credits now; undefined until they have arrived. */
export const account = signal<AccountReport | undefined>(undefined)

/** It may have been renamed since, in another tab or by another owner. */
export const accountNameOf = ({ account: signedIn }: SessionJson): string => account.value?.account.name ?? signedIn.name

onSignedOut(() => endSession(session))

/** The id of the person of whom the page may hold something, after a sign-out too. */
let lastPerson: string | undefined

effect(() => {
  lastPerson = session.value?.person.id ?? lastPerson
})

export const loadSession = async (): Promise<void> => {
  const found = await get<SessionJson>('/session')
  // Somebody else has signed in, in another tab of this browser: nothing of the person before may stay.
  if (lastPerson !== undefined && lastPerson !== found.person.id) return location.reload()
  session.value = found
  recordSignIn()
  hasEnded.value = false
}

followOtherTabs(session, loadSession)

/** An EventSource connects again by itself, except after a response that is no stream: of a gateway without its store, or of a proxy without a gateway. */
const reconnectMs = 3_000

let shownFigures = ''

const show = ({ now, ...figures }: AccountReport): void => {
  clockOffsetMs.value = Date.parse(now) - Date.now()
  // A stream begins with what is shown already.
  const text = JSON.stringify(figures)
  if (account.value === undefined || text !== shownFigures) account.value = { ...figures, now }
  shownFigures = text
}

/** Before the stream has begun, or without one: there are too many, or a proxy lets none through; or when somebody does not want to wait for the next figures. */
export const loadAccount = async (): Promise<void> => {
  const shown = account.value
  const report = await get<AccountReport>('/account')
  // A stream that has begun since has newer figures.
  if (account.value === shown) show(report)
}

/** Who is signed in, and what they have: at first, both have been asked for already. */
export const loadSessionAndAccount = async (): Promise<void> => {
  if (isFirstRequest('/account')) void loadAccount().catch(() => undefined)
  await loadSession()
}

const connect = (): EventSource => {
  const events = new EventSource('/api/v1/events')
  events.addEventListener('open', () => {
    reportConnection(undefined)
  })
  events.addEventListener('error', () => {
    const hasResponse = events.readyState === EventSource.CLOSED
    if (!hasResponse) reportConnection(developerTexts.notConnected)
    // Has the session ended, is it another, or is the store unreachable? EventSource does not say.
    const checked = loadSession()
    void (hasResponse ? checked.then(loadAccount) : checked).catch(() => undefined)
  })
  events.addEventListener('account', event => show(JSON.parse(event.data) as AccountReport))
  return events
}

/** All tabs together have six connections to a host: in hidden ones, streams would leave none for requests. */
const isVisible = signal(document.visibilityState === 'visible')

document.addEventListener('visibilitychange', () => {
  isVisible.value = document.visibilityState === 'visible'
})

/** Not the session itself, which is loaded again and again: each time, the stream would begin anew. */
const isSignedIn = computed(() => session.value !== null && session.value !== undefined && !hasEnded.value)

/** While somebody is signed in and looks at the page, the gateway sends the credits each time that they change. */
effect(() => {
  if (!isVisible.value || !isSignedIn.value) return
  let events = connect()
  const timer = setInterval(() => {
    if (events.readyState === EventSource.CLOSED) events = connect()
  }, reconnectMs)
  return () => {
    clearInterval(timer)
    events.close()
  }
})
