/** What HGETALL says, names and values in turn, as pairs. */
export const pairsOf = (reply: unknown): readonly (readonly [name: string, value: string])[] => {
  const words = reply as readonly string[] // what Redis promises
  return Array.from({ length: words.length / 2 }, (_, i) => [words[2 * i] ?? '', words[2 * i + 1] ?? ''])
}
