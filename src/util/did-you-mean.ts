/** The one of `candidates` that was probably meant; undefined when none is close. With `maxEdits`, none that needs more. */
export const closestMatch = (
  word: string,
  candidates: Iterable<string>,
  maxEdits = Math.max(1, Math.floor(word.length / 3)),
): string | undefined => {
  const names = [...candidates]
  let best: string | undefined
  let lowestDistance = Math.min(word.length, maxEdits + 1)
  for (const candidate of names) {
    if (Math.abs(word.length - candidate.length) >= lowestDistance) continue
    const distance = editDistance(...withoutCommonStart(word.toLowerCase(), candidate.toLowerCase()), lowestDistance)
    if (distance < lowestDistance) [best, lowestDistance] = [candidate, distance]
  }
  return best ?? onlyOneWithPart(word, names)
}

/** `gnosis-mainnet` for `gnosis`, `devnet` for `dev`. */
const onlyOneWithPart = (word: string, names: readonly string[]): string | undefined => {
  const part = word.toLowerCase()
  const found = part.length < minPartChars ? [] : names.filter(name => name.startsWith(part) || name.split('-').includes(part))
  return found.length === 1 ? found[0] : undefined
}

/** Shorter parts say little. */
const minPartChars = 3

/** The hint that goes with closestMatch(). */
export const didYouMean = (word: string, words: Iterable<string>): string | undefined => formatSuggestion(closestMatch(word, words))

export const formatSuggestion = (meant: string | undefined): string | undefined => meant && `did you mean \`${meant}\`?`

/** `a, b or c`. */
export const formatAlternatives = (words: readonly string[]): string =>
  words.length < 2 ? words.join() : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`

/** The edits stay the same: most methods begin alike. */
const withoutCommonStart = (a: string, b: string): readonly [a: string, b: string] => {
  let start = 0
  while (start < a.length && a[start] === b[start]) start += 1
  return [a.slice(start), b.slice(start)]
}

/** Edits between two words: insert, delete, replace, or swap two neighbors. At least `limit` where it is not below. */
const editDistance = (a: string, b: string, limit: number): number => {
  let beforeLast: readonly number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    let lowest = i
    for (let j = 1; j <= b.length; j++) {
      const replaced = last[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)
      const swapped = i > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? beforeLast[j - 2]! + 1 : Infinity
      const distance = Math.min(last[j]! + 1, row[j - 1]! + 1, replaced, swapped)
      row.push(distance)
      lowest = Math.min(lowest, distance)
    }
    if (lowest >= limit + 1) return limit // a swap may still save one edit
    beforeLast = last
    last = row
  }
  return last[b.length]!
}
