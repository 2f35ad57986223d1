/** The environment that variables are taken from. */
export type Env = Readonly<Record<string, string | undefined>>

/** A variable that a text needs and the environment lacks. */
export interface Unset {
  readonly name: string
  /** It is there, but empty: that counts as not set, because compose files pass on what they do not have as empty. */
  readonly empty: boolean
  /** What the file itself says about it, in `${VAR:?message}`. */
  readonly demand?: string
}

/** What became of a text that held variables. */
export interface Filled {
  readonly text: string
  /** The variables that the text names. */
  readonly names: readonly string[]
  /** What came from the environment: never to be printed. */
  readonly values: readonly string[]
  readonly unset: readonly Unset[]
  /** What looks like a variable and is none. */
  readonly malformed: readonly string[]
}

/** Replaces `${VAR}`, `${VAR:-default}`, `${VAR:?message}` and `$$`; undefined when the text holds none of them. */
export const fill = (text: string, env: Env): Filled | undefined => {
  if (!text.includes('${') && !text.includes('$$')) return undefined
  const names: string[] = []
  const values: string[] = []
  const unset: Unset[] = []
  const malformed: string[] = []

  const replace = (found: string, body: string | undefined): string => {
    if (found === '$$') return '$'
    const [, name, operator, rest = ''] = variable.exec(body ?? '') ?? []
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
    if (operator === ':-') return rest.replaceAll('$$', () => '$')
    unset.push({ name, empty: env[name] === '', ...(operator === ':?' && { demand: rest }) })
    return ''
  }

  return { text: text.replace(placeholder, replace), names, values, unset, malformed }
}

/** The fix for a variable that is not set. */
export const howToSet = ({ name, demand }: Unset): string =>
  demand === undefined ? `export ${name}=…, or write \${${name}:-default}` : `export ${name}=…`

export const describeUnset = ({ name, empty, demand }: Unset): string =>
  `the environment variable ${name} is ${empty ? 'empty' : 'not set'}${demand ? `: ${demand}` : ''}`

// A `${` without an end, or with another inside it, is matched too, so that it can be reported.
const placeholder = /\$\$|\$\{([^{}]*)\}|\$\{(?:\$\{[^{}]*\}|[^{}])*\}?/g
const variable = /^([A-Za-z_][A-Za-z0-9_]*)(?:(:-|:\?)(.*))?$/s
