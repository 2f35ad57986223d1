import { signal } from '@preact/signals'

/** The time of the gateway, as far as it is known: its difference to that of the browser, in ms. */
export const clockOffsetMs = signal(0)

/** Milliseconds since 1970, by the clock of the gateway. */
export const now = signal(Date.now())

setInterval(() => {
  now.value = Date.now() + clockOffsetMs.value
}, 1_000)
