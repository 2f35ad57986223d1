import type { TestClock } from './fakes.ts'

const mib = 1 << 20

/**
 * What a slow reader calls with each chunk that it reads: for each MiB or more that the system has taken meanwhile, half the send timeout passes,
 * however long the machine takes for it.
 */
export const passTimeBySpeed = (clock: TestClock, sendTimeoutMs: number, sentBytes: () => number): (() => void) => {
  let sentBefore = sentBytes()
  return () => {
    const sent = sentBytes()
    if (sent - sentBefore < mib) return
    sentBefore = sent
    clock.advance(sendTimeoutMs / 2)
  }
}
