import { signal } from '@preact/signals'

/** The time of the gateway, as far as it is known: its difference to that of the browser, in ms. */
export const clockOffsetMs = signal(0)

/** Milliseconds since 1970, by the clock of the gateway. */
export const now = signal(Date.now())

/** What is shown is never older than a time that is shown beside it. */
export const updateClock = (): void => {
  now.value = Date.now() + clockOffsetMs.value
}

setInterval(updateClock, 1_000)
