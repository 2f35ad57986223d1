import type { Clock, Timer } from '../clock.ts'

/** How a service behaves that callers can do without. */
export interface CacheBreaker {
  readonly isClosed: boolean
  /** It did what was asked of it in time. */
  recordSuccess(): void
  recordFailure(cause: string): void
  /** There is reason to believe that it is well: it is tried at once. */
  probe(): Promise<void>
  stop(): void
}

export interface CacheBreakerOptions {
  readonly clock: Clock
  /** Tries it, with nobody waiting; what is wrong, if anything is. */
  readonly healthCheck: () => Promise<string | undefined>
  onStateChange(isClosed: boolean, cause: string): void
}

/** Five failures in a row are too many, and more than one in five on and on. */
const failureWeight = 4
const openThreshold = 20

/** In ms, before it is tried again; doubled each time. */
const initialBackoffMs = 250
const maxBackoffMs = 16_000

/** A small breaker. It begins open: only a test that succeeds closes it, never a caller's luck. */
export const createCacheBreaker = ({ clock, healthCheck, onStateChange }: CacheBreakerOptions): CacheBreaker => {
  let [isClosed, isStopped, isProbing, score, backoffMs] = [false, false, false, 0, initialBackoffMs]
  let lastReported: boolean | undefined

  const reportStateChange = (cause: string): void => {
    if (lastReported !== isClosed) onStateChange(isClosed, cause)
    lastReported = isClosed
  }
  const scheduleProbe = (): Timer => {
    const timer = clock.after(backoffMs, () => void probe())
    backoffMs = Math.min(maxBackoffMs, 2 * backoffMs)
    return timer
  }
  const probe = async (): Promise<void> => {
    if (isClosed || isStopped || isProbing) return
    isProbing = true
    const cause = await healthCheck()
    isProbing = false
    if (isStopped) return
    timer.cancel()
    isClosed = cause === undefined
    if (isClosed) score = 0
    else timer = scheduleProbe()
    reportStateChange(cause ?? '')
  }
  let timer = scheduleProbe()
  return {
    get isClosed() {
      return isClosed
    },
    recordSuccess() {
      score = Math.max(0, score - 1)
      if (score === 0) backoffMs = initialBackoffMs
    },
    recordFailure(cause) {
      score += failureWeight
      if (!isClosed || score < openThreshold) return
      isClosed = false
      timer = scheduleProbe()
      reportStateChange(cause)
    },
    probe,
    stop() {
      ;[isStopped, isClosed] = [true, false]
      timer.cancel()
    },
  }
}
