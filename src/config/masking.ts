import { isAlias, isCollection, isNode, isScalar, visit } from 'yaml'
import type { Document, Scalar } from 'yaml'
import { closestMatch } from '../util/did-you-mean.ts'
import { escapeRegExp } from '../util/name-pattern.ts'
import { publicSegment } from '../util/path-segments.ts'
import type { Expansion } from './variables.ts'

// What is never shown of a file and of messages: values under the names of secrets, URLs but for scheme, host and port, and the environment.

/** Where the text of a file holds a secret: offsets of its beginning and of its end. */
export type SecretRange = readonly [start: number, end: number]

/**
 * All values under a key that names a secret, and all texts and numbers under a key `headers`, as the headers of requests to nodes may hold
 * keys; also those that aliases refer to. Found by names alone, so that a file with errors shows no secret either.
 */
export const findSecretRanges = (document: Document.Parsed, text: string): readonly SecretRange[] => {
  const ranges: SecretRange[] = []
  visit(document.contents, {
    Collection: skipDeep,
    Pair(_, { key, value }) {
      if (!isScalar(key)) return
      const isSecret = isSecretName(String(key.value))
      if (!isSecret && key.value !== 'headers') return
      ranges.push(...rangesWithin(value, document, text, isSecret))
      if (isSecret) ranges.push(...rangeAfterKey(key, value, document, text))
    },
  })
  return ranges
}

/** The ranges of all texts and numbers in a node, and of those that its aliases refer to. */
const rangesWithin = (root: unknown, document: Document.Parsed, text: string, withKeys: boolean): readonly SecretRange[] => {
  const ranges: SecretRange[] = []
  const found = new Set<unknown>()
  const findTexts = (node: unknown): void => {
    if (found.has(node)) return
    found.add(node)
    if (isAlias(node)) return findTexts(node.resolve(document))
    visit(node as Document.Parsed['contents'], {
      Collection: skipDeep,
      Pair: (_, { key, value }) => void ranges.push(...rangeAfterKey(key, value, document, text)),
      Alias: (_, alias) => findTexts(alias),
      Scalar(position, { value, range }) {
        const isShown = position === 'key' && !withKeys
        if (!isShown && isText(value) && range) ranges.push([range[0], range[1]])
      },
    })
  }
  findTexts(root)
  return ranges
}

const isText = (value: unknown): boolean => ['string', 'number'].includes(typeof value)

/**
 * What follows a key, from the colon to the end of the value: a secret that begins with `*`, `!` or `&` is an alias, a tag or an anchor.
 * Where the line has an error, to its end: the parser may have dropped the rest of the value.
 */
const rangeAfterKey = (key: unknown, value: unknown, document: Document.Parsed, text: string): readonly SecretRange[] => {
  const start = isScalar(key) && key.range ? text.indexOf(':', key.range[1]) + 1 : 0
  if (start === 0 || isCollection(value)) return []
  const end = Math.max(start, isNode(value) && value.range ? value.range[1] : start)
  const lineEnd = text.indexOf('\n', end) < 0 ? text.length : text.indexOf('\n', end)
  const hasError = document.errors.some(({ code, pos: [at] }) => code !== 'DUPLICATE_KEY' && at >= start && at <= lineEnd)
  if (hasError) return [[start, lineEnd]]
  return (isAlias(value) ? value.resolve(document) === undefined : isScalar(value) && hasText(value)) ? [[start, end]] : []
}

const hasText = ({ value, anchor, tag }: Scalar): boolean => isText(value) || anchor !== undefined || tag !== undefined

const secretNames = ['token', 'secret', 'password', 'passphrase', 'apiKey', 'clientSecret']
const secretNamePattern = /(?:token|secret|password|passphrase|api[-_]?key)s?$/i

/** Also a misspelled one. */
const isSecretName = (name: string): boolean => secretNamePattern.test(name) || closestMatch(name, secretNames) !== undefined

/** Deeper maps and lists are problems of their own. */
const skipDeep = (_: unknown, __: unknown, { length }: { readonly length: number }) => (length > maxDepth ? visit.SKIP : undefined)

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

/** The default of a variable may be a secret, its name is none. */
const maskText = (text: string): string =>
  text.replace(/\$\{\w*(?::[-?])?|[^\s"']/g, found => (found.length > 1 || found === '}' ? found : '*'))

/** In a line of a file, also masks what looks like a provider's key after a slash: the scheme may be missing. */
export const maskSourceLine = (line: string): string =>
  maskUrls(line).replace(/(?<=\/)(?=[\w-]*\d)[\w-]{20,}(?![\w.-])/g, found => '*'.repeat(found.length))

/**
 * Masks a URL in the text but for scheme, host, port, and words of its path that are no secrets: the rest may hold a provider's key or a password.
 * Asterisks preserve the length of the text, so that a caret below stays under its column.
 */
export const maskUrls = (text: string): string =>
  text.replace(urlPattern, (_, scheme: string, rest: string) => {
    const [, user = '', host = '', tail = ''] = /^([^/?#]*@)?([^/?#]*)(.*)$/s.exec(rest) ?? []
    const [path = ''] = /^[^?#]*/.exec(tail) ?? []
    return scheme + asterisks(user) + host + path.replace(/[^/]+/g, maskUnlessWord) + asterisks(tail.slice(path.length))
  })

/** Ids of projects may consist of digits. In a sentence a URL ends with punctuation. */
const maskUnlessWord = (part: string): string =>
  publicSegment.test(part.replace(/[:.,;)]+$/, '')) && !/\d{6}/.test(part) ? part : asterisks(part)

/** The message without the values that the strings took from the environment, as they are or in JSON. */
export const maskValues = (message: string, expansions: Iterable<Expansion>): string => {
  const values = [...expansions].flatMap(text => text.values)
  const spellings = new Set(values.flatMap(value => [value, JSON.stringify(value).slice(1, -1)]))
  return [...spellings].sort((a, b) => b.length - a.length).reduce((masked, value) => masked.replace(occurrencesOf(value), '***'), message)
}

// In YAML a URL ends at a space, a quote, or a bracket that is neither a variable's nor an IPv6 host's.
const urlPattern = /\b(?!file:)([a-z][a-z0-9+.-]*:\/\/)((?:\$\{[^}]*\}|\[[\da-f:.]*\]|[^\s"'{}[\]])*)/gi

/** The names of variables are no secrets. */
const asterisks = (text: string): string => text.replace(/\$\{[^}]*\}|[^/@]/g, found => (found.length > 1 ? found : '*'))

/** Values of one or two characters are masked only as whole words: they would occur in most words. */
const occurrencesOf = (text: string): RegExp => {
  const literal = escapeRegExp(text)
  return new RegExp(text.length > 2 ? literal : `(?<!\\w)${literal}(?!\\w)`, 'g')
}
