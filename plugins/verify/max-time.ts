import { Cancellation, onAbort, refuse } from '../../src/plugin/plugin.ts'
import type { Failure, Reply, Services } from '../../src/plugin/plugin.ts'
import type { VerifiedCall } from './verified-call.ts'

interface MaxTime {
  /** Undefined: as long as it takes. */
  readonly ms: number | undefined
  readonly clock: Services['clock']
  readonly failure: Failure
}

/** An answer of many requests takes no longer than the one request that it replaces may: then they are canceled. */
export const withinMaxTime = (
  call: VerifiedCall,
  { ms, clock, failure }: MaxTime,
  answer: (call: VerifiedCall) => Promise<Reply>,
): Promise<Reply> => {
  if (ms === undefined) return answer(call)
  const cancellation = new Cancellation()
  const stopListening = onAbort(call.signal ?? call.origin.signal, () => cancellation.abort())
  return new Promise((resolve, reject) => {
    const timer = clock.after(ms, () => {
      resolve(failure)
      cancellation.abort()
    })
    const end = (): void => {
      timer.cancel()
      stopListening()
    }
    answer({ ...call, signal: cancellation })
      .then(resolve, reject)
      .finally(end)
  })
}

/** The node of the call may be slower than others. */
export const proofTimeout = ({ context: { target } }: VerifiedCall): Failure =>
  refuse('timeout', { source: target.source, upstream: target.name, fault: 'upstream', retryElsewhere: true })

/** The other nodes have been asked as well. */
export const quorumTimeout = refuse('timeout', { source: 'gateway', fault: 'gateway' })
