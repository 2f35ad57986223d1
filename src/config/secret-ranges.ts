import { isAlias, isScalar, visit } from 'yaml'
import type { Document } from 'yaml'

/** Where the text of a file holds a secret: offsets of its beginning and of its end. */
export type SecretRange = readonly [start: number, end: number]

/** All texts and numbers under a key `headers`, also those that aliases refer to: the headers of requests to nodes may hold keys. */
export const findSecretRanges = (document: Document.Parsed): readonly SecretRange[] => {
  const ranges: SecretRange[] = []
  const found = new Set<unknown>()
  const Collection = (_: unknown, __: unknown, { length }: { readonly length: number }) => (length > maxDepth ? visit.SKIP : undefined)
  const findTexts = (node: unknown): void => {
    if (found.has(node)) return
    found.add(node)
    if (isAlias(node)) return findTexts(node.resolve(document))
    visit(node as Document.Parsed['contents'], {
      Collection,
      Alias: (_, alias) => findTexts(alias),
      Scalar(position, { value, range }) {
        if (position !== 'key' && ['string', 'number'].includes(typeof value) && range) ranges.push([range[0], range[1]])
      },
    })
  }
  visit(document.contents, {
    Collection,
    Pair(_, { key, value }) {
      if (isScalar(key) && key.value === 'headers') findTexts(value)
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
