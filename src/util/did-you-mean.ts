/** The one of `candidates` that was probably meant; undefined when none is close. */
export const closestMatch = (word: string, candidates: Iterable<string>): string | undefined => {
  let best: string | undefined
  let lowestDistance = Math.min(word.length, Math.max(1, Math.floor(word.length / 3)) + 1)
  for (const candidate of candidates) {
    if (Math.abs(word.length - candidate.length) >= lowestDistance) continue
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase())
    if (distance < lowestDistance) [best, lowestDistance] = [candidate, distance]
  }
  return best
}

/** The hint that goes with closestMatch(). */
export const didYouMean = (word: string, words: Iterable<string>): string | undefined => formatSuggestion(closestMatch(word, words))

export const formatSuggestion = (meant: string | undefined): string | undefined => meant && `did you mean \`${meant}\`?`

/** `a, b or c`. */
export const formatAlternatives = (words: readonly string[]): string =>
  words.length < 2 ? words.join() : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`

/** Edits between two words: insert, delete, replace, or swap two neighbors. */
const editDistance = (a: string, b: string): number => {
  const rows = [Array.from({ length: b.length + 1 }, (_, j) => j)]
  const at = (i: number, j: number): number => rows[i]?.[j] ?? Infinity
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    rows.push(row)
    for (let j = 1; j <= b.length; j++) {
      const replaced = at(i - 1, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1)
      const swapped = a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? at(i - 2, j - 2) + 1 : Infinity
      row.push(Math.min(at(i - 1, j) + 1, at(i, j - 1) + 1, replaced, swapped))
    }
  }
  return at(a.length, b.length)
}
