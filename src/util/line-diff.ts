import { structuredPatch } from 'diff'

/** A line of two texts: of both, or of one. */
export interface DiffLine {
  readonly kind: 'same' | 'added' | 'removed'
  readonly text: string
}

/** Texts with more lines that differ are compared as a whole; so many cost 0.1 s. */
const maxDifferentLines = 1_000

const kinds: Readonly<Record<string, DiffLine['kind']>> = { ' ': 'same', '+': 'added', '-': 'removed' }

/** The lines that differ, with some lines around them; null in place of what is left out between them. */
export const diffLines = (before: string, after: string, context: number): readonly (DiffLine | null)[] => {
  const patch = structuredPatch('', '', before, after, undefined, undefined, { context, maxEditLength: maxDifferentLines })
  if (patch === undefined) return [...linesOf(before, 'removed'), ...linesOf(after, 'added')]
  return patch.hunks.flatMap(({ lines }, i) => [
    ...(i === 0 ? [] : [null]),
    // A line of another kind tells that a text does not end with a line break.
    ...lines.flatMap(line => {
      const kind = kinds[line.charAt(0)]
      return kind === undefined ? [] : [{ kind, text: line.slice(1) }]
    }),
  ])
}

const linesOf = (text: string, kind: DiffLine['kind']): readonly DiffLine[] =>
  text === ''
    ? []
    : text
        .replace(/\n$/, '')
        .split('\n')
        .map(line => ({ kind, text: line }))
