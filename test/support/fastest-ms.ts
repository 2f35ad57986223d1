const maxAttempts = 5

/**
 * The ms that `measure` resolves with. On a busy machine the gateway, another process, may be scheduled late, but not each time: while it is
 * `limitMs` or more, it is measured again, and the fastest counts.
 */
export const fastestMs = async (limitMs: number, measure: () => Promise<number>): Promise<number> => {
  let fastest = Infinity
  for (let i = 0; i < maxAttempts && fastest >= limitMs; i += 1) fastest = Math.min(fastest, await measure())
  return fastest
}
