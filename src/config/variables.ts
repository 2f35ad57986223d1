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
