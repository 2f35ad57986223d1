import { effect, signal } from '@preact/signals'
import { session } from './api.ts'
import type { Account } from './api.ts'
import { clockOffsetMs } from './clock.ts'
import { connectionProblem, get } from './request.ts'
import { texts } from './texts.ts'

/** The credits now; undefined until they have arrived. */
export const account = signal<Account | undefined>(undefined)

/** An EventSource connects again by itself, except after a response that is no stream: of a gateway without its store, or of a proxy without a gateway. */
const reconnectMs = 3_000

const connect = (): EventSource => {
  const events = new EventSource('/api/v1/events')
  events.addEventListener('open', () => {
    connectionProblem.value = undefined
  })
  events.addEventListener('error', () => {
    connectionProblem.value = texts.notConnected
    // Has the session ended, or is the store unreachable? EventSource does not say.
    void get('/session').catch(() => undefined)
  })
  events.addEventListener('account', event => {
    const received = JSON.parse(event.data) as Account
    account.value = received
    clockOffsetMs.value = Date.parse(received.now) - Date.now()
  })
  return events
}

/** While somebody is signed in, the gateway sends the credits each time that they change. */
effect(() => {
  if (session.value === null || session.value === undefined) return
  let events = connect()
  const timer = setInterval(() => {
    if (events.readyState === EventSource.CLOSED) events = connect()
  }, reconnectMs)
  return () => {
    clearInterval(timer)
    events.close()
  }
})
