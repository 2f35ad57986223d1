/** How many must have the same value: at most `answered` and those that are `pending` can. */
type RequiredVotes = (answered: number, pending: number) => number

/** A majority of those that answer, and 2 at least where there are 2; or as many as are given. */
export const requiredVotesOf =
  (agree: number | undefined, voterCount: number): RequiredVotes =>
  (answered, pending) =>
    agree ?? Math.max(Math.min(2, voterCount), Math.floor((answered + pending) / 2) + 1)

/**
 * The value that enough voters have, as soon as the answers to come change nothing; undefined where none has enough. Of equal values the first that came
 * is returned. A voter whose answer is undefined has no say.
 */
export const agreedValue = <T>(
  answers: readonly Promise<T | undefined>[],
  keyOf: (value: T) => string,
  required: RequiredVotes,
): Promise<T | undefined> => {
  const votes = new Map<string, { readonly value: T; count: number }>()
  let [answered, pending] = [0, answers.length]
  return new Promise((resolve, reject) => {
    const decide = () => {
      const best = [...votes.values()].toSorted((one, other) => other.count - one.count)[0]
      if (best !== undefined && best.count >= required(answered, pending)) resolve(best.value)
      else if (pending === 0) resolve(undefined)
    }
    decide()
    for (const answer of answers) {
      answer.then(value => {
        pending -= 1
        if (value !== undefined) {
          answered += 1
          const key = keyOf(value)
          const vote = votes.get(key) ?? { value, count: 0 }
          vote.count += 1
          votes.set(key, vote)
        }
        decide()
      }, reject)
    }
  })
}
