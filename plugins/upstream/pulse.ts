import { feelPulse, Leave } from '../../src/plugin.ts'
import type { Call, Services, Target } from '../../src/plugin.ts'

/** Is the node alive? Asked once at a time per node, however many calls wait for it. */
export const watchPulse = (services: Services) => {
  const asked = new Map<string, Promise<boolean>>()
  return (target: Target, call: Call): Promise<boolean> => {
    const running = asked.get(target.name)
    if (running !== undefined) return running
    const isAlive = feelPulse(target, services, { timeout: 1000, signal: new Leave() })
      .then(pulse => pulse !== 'none')
      .finally(() => asked.delete(target.name))
    isAlive.then(
      alive => {
        if (!alive) services.log.warn({ upstream: target.name, requestId: call.origin.requestId }, 'upstream hangs')
      },
      () => undefined,
    )
    asked.set(target.name, isAlive)
    return isAlive
  }
}
