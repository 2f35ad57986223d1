import { isFailure, Leave } from '../../src/plugin.ts'
import type { Call, Services, Target } from '../../src/plugin.ts'

/** Is the node alive? Asked once at a time per node, however many calls wait for it. */
export const watchPulse = ({ agents, log }: Services) => {
  const asked = new Map<string, Promise<boolean>>()
  return (target: Target, call: Call): Promise<boolean> => {
    const running = asked.get(target.name)
    if (running !== undefined) return running
    const pulse = agents
      .ask(target, { method: 'eth_blockNumber', params: [] }, {
        timeout: 1000, maxBytes: 65536, signal: new Leave(), resend: true, ahead: true,
      })
      .then(reply => !isFailure(reply) || reply.fault !== 'upstream')
      .finally(() => asked.delete(target.name))
    pulse.then(alive => {
      if (!alive) log.warn({ upstream: target.name, requestId: call.origin.requestId }, 'upstream hangs')
    }, () => undefined)
    asked.set(target.name, pulse)
    return pulse
  }
}
