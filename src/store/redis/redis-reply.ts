/** What HGETALL says, names and values in turn, as pairs. */
export const parsePairs = (reply: unknown): readonly (readonly [name: string, value: string])[] => {
  const items = reply as readonly string[] // what Redis promises
  return Array.from({ length: items.length / 2 }, (_, i) => [items[2 * i] ?? '', items[2 * i + 1] ?? ''])
}
