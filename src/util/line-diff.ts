/** A line of two texts: of both, or of one. */
export interface DiffLine {
  readonly kind: 'same' | 'added' | 'removed'
  readonly text: string
}

/** Longer texts are compared from where they first differ to where they last do, as a whole. */
const maxComparedLines = 2_000

/** The lines of both texts in one order, by a longest common subsequence. */
export const diffLines = (before: string, after: string): readonly DiffLine[] => {
  const [old, current] = [before.split('\n'), after.split('\n')]
  let start = 0
  while (start < Math.min(old.length, current.length) && old[start] === current[start]) start += 1
  let end = 0
  while (end < Math.min(old.length, current.length) - start && old.at(-1 - end) === current.at(-1 - end)) end += 1
  const same = (lines: readonly string[]): readonly DiffLine[] => lines.map(text => ({ kind: 'same', text }))
  return [
    ...same(old.slice(0, start)),
    ...diffMiddle(old.slice(start, old.length - end), current.slice(start, current.length - end)),
    ...same(old.slice(old.length - end)),
  ]
}

const diffMiddle = (old: readonly string[], current: readonly string[]): readonly DiffLine[] => {
  if (old.length > maxComparedLines || current.length > maxComparedLines)
    return [...old.map(text => ({ kind: 'removed', text }) as const), ...current.map(text => ({ kind: 'added', text }) as const)]
  // lengths[i][j]: of the longest common subsequence from old[i] and current[j] on.
  const lengths = Array.from({ length: old.length + 1 }, () => new Uint16Array(current.length + 1))
  const lengthAt = (i: number, j: number): number => lengths[i]?.[j] ?? 0
  for (let i = old.length - 1; i >= 0; i -= 1)
    for (let j = current.length - 1; j >= 0; j -= 1) {
      const row = lengths[i]
      if (row !== undefined) row[j] = old[i] === current[j] ? lengthAt(i + 1, j + 1) + 1 : Math.max(lengthAt(i + 1, j), lengthAt(i, j + 1))
    }
  const lines: DiffLine[] = []
  let [i, j] = [0, 0]
  while (i < old.length || j < current.length) {
    const [oldLine, newLine] = [old[i], current[j]]
    if (oldLine !== undefined && oldLine === newLine) {
      lines.push({ kind: 'same', text: oldLine })
      i += 1
      j += 1
    } else if (oldLine !== undefined && (newLine === undefined || lengthAt(i + 1, j) >= lengthAt(i, j + 1))) {
      lines.push({ kind: 'removed', text: oldLine })
      i += 1
    } else {
      lines.push({ kind: 'added', text: newLine ?? '' })
      j += 1
    }
  }
  return lines
}

/** Those that differ, with some lines around them; undefined in place of what is left out between them. */
export const withContext = (lines: readonly DiffLine[], context: number): readonly (DiffLine | undefined)[] => {
  const isNear = lines.map((_, i) => lines.slice(Math.max(0, i - context), i + context + 1).some(({ kind }) => kind !== 'same'))
  return lines.flatMap((line, i) => (isNear[i] ? [line] : isNear[i - 1] && isNear.includes(true, i) ? [undefined] : []))
}
