import type { Clock, Timer } from '../clock.ts'

/** How a service behaves that callers can do without. */
export interface Health {
  readonly isGood: boolean
  /** It did what was asked of it in time. */
  praise(): void
  blame(cause: string): void
  /** There is reason to believe that it is well: it is tried at once. */
  probe(): Promise<void>
  stop(): void
}

export interface HealthTerms {
  readonly clock: Clock
  /** Tries it, with nobody waiting; what is wrong, if anything is. */
  readonly test: () => Promise<string | undefined>
  onChange(isGood: boolean, cause: string): void
}

/** Five failures in a row are too many, and more than one in five on and on. */
const weight = 4
const tooMuch = 20

/** In ms, before it is tried again; doubled each time. */
const first = 250
const longest = 16_000

/** A small breaker. It begins open: only a test that succeeds closes it, never a caller's luck. */
export const openHealth = ({ clock, test, onChange }: HealthTerms): Health => {
  let [isGood, isStopped, isTrying, score, pause] = [false, false, false, 0, first]
  let told: boolean | undefined

  const tell = (cause: string): void => {
    if (told !== isGood) onChange(isGood, cause)
    told = isGood
  }
  const rest = (): Timer => {
    const timer = clock.after(pause, () => void probe())
    pause = Math.min(longest, 2 * pause)
    return timer
  }
  const probe = async (): Promise<void> => {
    if (isGood || isStopped || isTrying) return
    isTrying = true
    const cause = await test()
    isTrying = false
    if (isStopped) return
    timer.cancel()
    isGood = cause === undefined
    if (isGood) score = 0
    else timer = rest()
    tell(cause ?? '')
  }
  let timer = rest()
  return {
    get isGood() {
      return isGood
    },
    praise() {
      score = Math.max(0, score - 1)
      if (score === 0) pause = first
    },
    blame(cause) {
      score += weight
      if (!isGood || score < tooMuch) return
      isGood = false
      timer = rest()
      tell(cause)
    },
    probe,
    stop() {
      ;[isStopped, isGood] = [true, false]
      timer.cancel()
    },
  }
}
