import { probeUpstream, Cancellation } from '../../src/plugin/plugin.ts'
import type { Call, Services, Target } from '../../src/plugin/plugin.ts'

/** Is the node alive? Asked once at a time per node, however many calls wait for it. */
export const createResponsivenessProbe = (services: Services) => {
  const probes = new Map<string, Promise<boolean>>()
  return (target: Target, call: Call): Promise<boolean> => {
    const running = probes.get(target.name)
    if (running !== undefined) return running
    const isResponsive = probeUpstream(target, services, { timeoutMs: 1000, signal: new Cancellation() })
      .then(result => result !== 'unreachable')
      .finally(() => probes.delete(target.name))
    isResponsive.then(
      alive => {
        if (!alive) services.log.warn({ upstream: target.name, requestId: call.origin.requestId }, 'upstream hangs')
      },
      () => undefined,
    )
    probes.set(target.name, isResponsive)
    return isResponsive
  }
}
