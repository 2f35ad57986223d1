import { setTimeout } from 'node:timers/promises'

const timeoutMs = 30_000

/** Waits for real sockets. Rejects after 30 s, which a loaded machine may need. */
export const waitUntil = async (condition: () => boolean | Promise<boolean>): Promise<void> => {
  const endsAt = performance.now() + timeoutMs
  while (!(await condition())) {
    if (performance.now() > endsAt) throw new Error(`did not happen within ${timeoutMs / 1_000} s: ${condition}`)
    await setTimeout(2)
  }
}
