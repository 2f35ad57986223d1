import { onAbort } from '../../plugin/call.ts'
import type { Clock } from '../clock.ts'
import type { CurrentChainState, WaitLimits } from './chain-state.ts'

/** While calls wait for a block, upstreams that lack it are polled this often, at most. */
export const catchUpIntervalMs = 100

export interface CatchUpOptions extends WaitLimits {
  readonly clock: Clock
  /** Polls the upstreams that are below the reported height. */
  poll(): void
}

/**
 * See Heads.waitForBlock(). The height may also go back meanwhile, so that the upstreams have it. Upstreams that are excluded, as
 * they lag too far behind, do not get a block soon: for them alone nobody waits.
 */
export const waitForBlock = (
  current: CurrentChainState,
  upstreams: readonly string[],
  block: number | undefined,
  { clock, timeoutMs, signal, poll }: CatchUpOptions,
): Promise<void> =>
  new Promise(resolve => {
    if (!upstreams.some(upstream => current.exclusionReasonOf(upstream) === undefined)) return resolve()
    const closers: (() => void)[] = []
    const end = (): void => {
      for (const close of closers.splice(0)) close()
      resolve()
    }
    const endIfReached = (): void => {
      if (upstreams.some(upstream => current.hasBlock(upstream, block))) end()
    }
    const timers = [clock.after(timeoutMs, end), clock.every(catchUpIntervalMs, poll)]
    closers.push(() => timers.forEach(timer => timer.cancel()), current.subscribe(endIfReached))
    closers.push(onAbort(signal, end))
    poll()
  })
