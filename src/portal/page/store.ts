import { effect, signal } from '@preact/signals'
import { get, isConnected, session } from './api.ts'
import type { Account } from './api.ts'

/** The credits now; undefined until they have arrived. */
export const account = signal<Account | undefined>(undefined)

/** The time of the gateway, as far as it is known: its difference to that of the browser, in ms. */
const clockOffsetMs = signal(0)

/** Milliseconds since 1970, by the clock of the gateway. */
export const now = signal(Date.now())

setInterval(() => {
  now.value = Date.now() + clockOffsetMs.value
}, 1_000)

// What the browser knows at once; the stream of events notices the rest.
addEventListener('offline', () => {
  isConnected.value = false
})
addEventListener('online', () => void get('/session').catch(() => undefined))

/** While somebody is signed in, the gateway sends the credits each time that they change. */
effect(() => {
  if (session.value === null || session.value === undefined) return
  const events = new EventSource('/api/v1/events')
  events.addEventListener('open', () => {
    isConnected.value = true
  })
  events.addEventListener('error', () => {
    isConnected.value = false
    // Has the session ended? EventSource does not say.
    void get('/session').catch(() => undefined)
  })
  events.addEventListener('account', event => {
    const received = JSON.parse(event.data) as Account
    account.value = received
    clockOffsetMs.value = Date.parse(received.now) - Date.now()
  })
  return () => events.close()
})
