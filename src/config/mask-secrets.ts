import type { Expansion } from './variables.ts'

/** In a line of a file also what looks like a provider's key behind a slash: the scheme in front of it may have been forgotten. */
export const maskSourceLine = (line: string): string =>
  maskUrls(line).replace(/(?<=\/)(?=[\w-]*\d)[\w-]{20,}(?![\w.-])/g, found => '*'.repeat(found.length))

/**
 * Of a URL in the text only scheme, host and port stay, because the rest may hold a provider's key or a password.
 * Asterisks keep the text's length, so that a caret below stays under its place.
 */
export const maskUrls = (text: string): string =>
  text.replace(urlPattern, (_, scheme: string, rest: string) => {
    const [, user = '', host = '', tail = ''] = /^([^/?#]*@)?([^/?#]*)(.*)$/s.exec(rest) ?? []
    return scheme + asterisks(user) + host + asterisks(tail)
  })

/** The message without what the texts took from the environment, as it stands there or in JSON. */
export const maskValues = (message: string, expansions: Iterable<Expansion>): string => {
  const values = [...expansions].flatMap(text => text.values)
  const spellings = new Set(values.flatMap(value => [value, JSON.stringify(value).slice(1, -1)]))
  return [...spellings].sort((a, b) => b.length - a.length).reduce((masked, value) => masked.replace(occurrencesOf(value), '***'), message)
}

// In YAML a URL ends at a space, a quote, or a bracket that is neither a variable's nor an IPv6 host's.
const urlPattern = /\b(?!file:)([a-z][a-z0-9+.-]*:\/\/)((?:\$\{[^}]*\}|\[[\da-f:.]*\]|[^\s"'{}[\]])*)/gi

/** The names of variables are no secrets. */
const asterisks = (text: string): string => text.replace(/\$\{[^}]*\}|[^/@]/g, found => (found.length > 1 ? found : '*'))

/** Texts of one or two characters hide nothing inside words, and would be found in most of them. */
const occurrencesOf = (text: string): RegExp => {
  const literal = text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
  return new RegExp(text.length > 2 ? literal : `(?<!\\w)${literal}(?!\\w)`, 'g')
}
