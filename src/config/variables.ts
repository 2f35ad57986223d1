import { escapeRegExp } from '../util/name-pattern.ts'

/** The environment variables. */
export type Env = Readonly<Record<string, string | undefined>>

/** A variable that a string refers to and the environment lacks. */
interface UnsetVariable {
  readonly name: string
  /** It is set to an empty value, which counts as not set: compose files pass unset variables on as empty ones. */
  readonly isEmpty: boolean
  /** The message of `${VAR:?message}`. */
  readonly requiredMessage?: string
}

/** A string with its variables expanded. */
export interface Expansion {
  readonly text: string
  /** The names of its variables. */
  readonly variables: readonly string[]
  /** Values of the environment, which must never be printed. */
  readonly values: readonly string[]
  readonly unset: readonly UnsetVariable[]
  /** Parts that look like a variable and are none. */
  readonly malformed: readonly string[]
}

/** Replaces `${VAR}`, `${VAR:-default}`, `${VAR:?message}` and `$$`; undefined when the string has none of them. */
export const expandVariables = (text: string, env: Env): Expansion | undefined => {
  if (!text.includes('${') && !text.includes('$$')) return undefined
  const names: string[] = []
  const values: string[] = []
  const unset: UnsetVariable[] = []
  const malformed: string[] = []

  const replace = (found: string, body: string | undefined): string => {
    if (found === '$$') return '$'
    const [, name, operator, operand = ''] = variablePattern.exec(body ?? '') ?? []
    if (name === undefined) {
      malformed.push(found)
      return found
    }
    names.push(name)
    const value = env[name] ?? ''
    if (value !== '') {
      values.push(value)
      return value
    }
    if (operator === ':-') return operand.replaceAll('$$', () => '$')
    unset.push({ name, isEmpty: env[name] === '', ...(operator === ':?' && { requiredMessage: operand }) })
    return ''
  }

  return { text: text.replace(placeholderPattern, replace), variables: names, values, unset, malformed }
}

/** The fix for a variable that is not set. */
export const setVariableHint = ({ name, requiredMessage }: UnsetVariable): string =>
  requiredMessage === undefined ? `export ${name}=…, or write \${${name}:-default}` : `export ${name}=…`

export const describeUnsetVariable = ({ name, isEmpty, requiredMessage }: UnsetVariable): string =>
  `the environment variable ${name} is ${isEmpty ? 'empty' : 'not set'}${requiredMessage ? `: ${requiredMessage}` : ''}`

// A `${` without an end, or with another inside it, is matched too, so that it can be reported.
const placeholderPattern = /\$\$|\$\{([^{}]*)\}|\$\{(?:\$\{[^{}]*\}|[^{}])*\}?/g
const variablePattern = /^([A-Za-z_][A-Za-z0-9_]*)(?:(:-|:\?)(.*))?$/s

/** In a line of a file, also masks what looks like a provider's key after a slash: the scheme may be missing. */
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
  const literal = escapeRegExp(text)
  return new RegExp(text.length > 2 ? literal : `(?<!\\w)${literal}(?!\\w)`, 'g')
}
