import type { Expansion } from './variables.ts'

/** In a line of a file, also masks what looks like a provider's key after a slash: the scheme may have been forgotten. */
export const maskSourceLine = (line: string): string =>
  maskUrls(line).replace(/(?<=\/)(?=[\w-]*\d)[\w-]{20,}(?![\w.-])/g, found => '*'.repeat(found.length))

/**
 * Masks a URL in the text but for scheme, host and port, because the rest may hold a provider's key or a password.
 * Asterisks preserve the length of the text, so that a caret below stays under its column.
 */
export const maskUrls = (text: string): string =>
  text.replace(urlPattern, (_, scheme: string, rest: string) => {
    const [, user = '', host = '', tail = ''] = /^([^/?#]*@)?([^/?#]*)(.*)$/s.exec(rest) ?? []
    return scheme + asterisks(user) + host + asterisks(tail)
  })

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
  const literal = text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
  return new RegExp(text.length > 2 ? literal : `(?<!\\w)${literal}(?!\\w)`, 'g')
}
