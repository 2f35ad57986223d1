import { isMap, isScalar, visit } from 'yaml'
import type { Document } from 'yaml'

/** Where the text of a file holds a secret: offsets of its beginning and of its end. */
export type SecretRange = readonly [start: number, end: number]

/** The texts of all maps under a key `headers`: the headers of requests to nodes may hold keys. */
export const findSecretRanges = (document: Pick<Document.Parsed, 'contents'>): readonly SecretRange[] => {
  const ranges: SecretRange[] = []
  visit(document.contents, {
    Collection: (_, __, ancestors) => (ancestors.length > maxDepth ? visit.SKIP : undefined),
    Pair(_, { key, value }) {
      if (!isScalar(key) || key.value !== 'headers' || !isMap(value)) return
      for (const { value: header } of value.items)
        if (isScalar(header) && typeof header.value === 'string' && header.range) ranges.push([header.range[0], header.range[1]])
    },
  })
  return ranges
}

/** Deeper maps and lists are problems of their own. */
const maxDepth = 200

/** The part of the text from `start` to `end`, with secrets masked; of the same length. Names of variables are no secrets. */
export const maskRanges = (text: string, start: number, end: number, ranges: readonly SecretRange[]): string =>
  ranges
    .filter(([from, to]) => from < end && to > start)
    .reduce(
      (masked, [from, to]) => {
        const [first, last] = [Math.max(0, from - start), Math.min(end, to) - start]
        return masked.slice(0, first) + maskText(masked.slice(first, last)) + masked.slice(last)
      },
      text.slice(start, end),
    )

const maskText = (text: string): string => text.replace(/\$\{[^}]*\}|[^\s"']/g, found => (found.length > 1 ? found : '*'))
