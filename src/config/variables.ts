/** The environment that variables are taken from. */
export type Env = Readonly<Record<string, string | undefined>>

/** A variable that a text needs and the environment lacks. */
export interface UnsetVariable {
  readonly name: string
  /** It is there, but empty: that counts as not set, because compose files pass on what they do not have as empty. */
  readonly isEmpty: boolean
  /** What the file itself says about it, in `${VAR:?message}`. */
  readonly requiredMessage?: string
}

/** What became of a text that held variables. */
export interface Expansion {
  readonly text: string
  /** The variables that the text names. */
  readonly variables: readonly string[]
  /** What came from the environment: never to be printed. */
  readonly values: readonly string[]
  readonly unset: readonly UnsetVariable[]
  /** What looks like a variable and is none. */
  readonly malformed: readonly string[]
}

/** Replaces `${VAR}`, `${VAR:-default}`, `${VAR:?message}` and `$$`; undefined when the text holds none of them. */
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
