/** In ms since 1970. */
export interface TimeSpan {
  readonly began: number
  /** Undefined while it lasts. */
  readonly ended: number | undefined
}

/** Of times that overlap, or touch, one. In order. */
export const joinTimes = (times: readonly TimeSpan[]): readonly TimeSpan[] => {
  const joined: { began: number; ended: number }[] = []
  for (const { began, ended = Infinity } of times.toSorted((a, b) => a.began - b.began)) {
    const last = joined.at(-1)
    if (last !== undefined && began <= last.ended) last.ended = Math.max(last.ended, ended)
    else joined.push({ began, ended })
  }
  return joined.map(({ began, ended }) => ({ began, ended: ended === Infinity ? undefined : ended }))
}
