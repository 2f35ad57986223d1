import type { Clock, Timer } from '../services/clock.ts'

interface ReadSpeedOptions {
  readonly clock: Pick<Clock, 'every'>
  /** How long a caller may read less than the least speed, in ms. */
  readonly sendTimeoutMs: number
  /** Bytes that have been sent since any fixed moment; undefined while there is no socket. */
  sentBytes(): number | undefined
  onSlow(): void
}

/** 16 KiB/s, which a phone on a slow mobile network reads. */
const minBytesPerSecond = 16_384

/** While the process itself is stopped or blocked nobody can read from it, and one check is late: that counts as one of these. */
const checksPerSendTimeout = 10

/** Calls `onSlow` at each check before which a caller has read less than the least speed for the send timeout, until it is canceled. */
export const watchReadSpeed = ({ clock, sendTimeoutMs, sentBytes, onSlow }: ReadSpeedOptions): Timer => {
  const intervalMs = sendTimeoutMs / checksPerSendTimeout
  // The first and the last of these checks are so far apart.
  const minBytes = Math.ceil((minBytesPerSecond * intervalMs * (checksPerSendTimeout - 1)) / 1_000)
  /** Bytes that had been sent at each check of the last send timeout. */
  const checks: number[] = []
  return clock.every(intervalMs, () => {
    const sent = sentBytes()
    if (sent === undefined) return
    if (checks.push(sent) >= checksPerSendTimeout && sent - checks.shift()! < minBytes) onSlow()
  })
}
