import { parseArgs } from 'node:util'
import type { ParseArgsConfig } from 'node:util'
import { didYouMean } from '../nearest.ts'
import { Misuse } from './command.ts'
import type { Terminal } from './command.ts'

/** What a command does after its first word. */
export type Verb = (args: readonly string[], terminal: Terminal) => Promise<number>

/** Runs the verb that the first word names. */
export const runVerb = (verbs: Readonly<Record<string, Verb>>, [word, ...args]: readonly string[], terminal: Terminal): Promise<number> => {
  const names = Object.keys(verbs)
  const verb = word !== undefined && Object.hasOwn(verbs, word) ? verbs[word] : undefined
  if (verb !== undefined) return verb(args, terminal)
  if (word === undefined) throw new Misuse(`a word is missing: ${names.join(', ')}`)
  throw new Misuse(`"${word}" is not one of ${names.join(', ')}${hint(didYouMean(word, names))}`)
}

/** The options of all commands on the store. */
const shared = {
  config: { type: 'string', default: 'configs' },
  json: { type: 'boolean', default: false },
} as const

type Options = NonNullable<ParseArgsConfig['options']>
type Values<O extends Options> = ReturnType<typeof parseArgs<{ options: O }>>['values']
type Words<O extends Options, N> = { readonly values: Values<O>; readonly words: { readonly [K in keyof N]: string } }

/** Reads `--config`, `--json` and these options, and as many other words as there are `names` for them. Throws Misuse. */
export const readWords = <const O extends Options, const N extends readonly string[]>(
  args: readonly string[],
  names: N,
  options: O,
): Words<O & typeof shared, N> => readOnly(args, names, { ...options, ...shared })

/** The same for a command that has no other options than these. */
export const readOnly = <const O extends Options, const N extends readonly string[]>(
  args: readonly string[],
  names: N,
  options: O,
): Words<O, N> => {
  const { values, positionals } = parse(args, options)
  const missing = names[positionals.length]
  if (missing !== undefined) throw new Misuse(`${missing} is missing`)
  if (positionals.length > names.length) throw new Misuse(`"${positionals[names.length]}" is one word too many`)
  // As many words as names, as was just checked.
  return { values, words: positionals as { readonly [K in keyof N]: string } }
}

/** The value of `--config`, for commands that take no other word. */
export const readConfigDir = (args: readonly string[]): string => readOnly(args, [], { config: shared.config }).values.config

/** `a,b` as a list. */
export const readList = (name: string, text: string | undefined): readonly string[] | undefined => {
  const items = text
    ?.split(',')
    .map(item => item.trim())
    .filter(item => item !== '')
  if (items?.length === 0) throw new Misuse(`--${name} needs at least one name`)
  return items && [...new Set(items)]
}

export const hint = (text: string | undefined): string => (text === undefined ? '' : `; ${text}`)

const parse = <const O extends Options>(
  args: readonly string[],
  options: O,
): { readonly values: Values<O>; readonly positionals: readonly string[] } => {
  try {
    return parseArgs({ args: [...args], allowPositionals: true, options })
  } catch (error) {
    throw new Misuse(retell(error as NodeJS.ErrnoException, options)) // parseArgs throws nothing else
  }
}

/** What parseArgs complains of, in our words: its own tell how to get round its rules. */
const retell = ({ code, message }: NodeJS.ErrnoException, options: Options): string => {
  const option = /'(--?[^ '=]+)/.exec(message)?.[1] ?? ''
  if (code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION') {
    return `there is no option ${option}${hint(
      didYouMean(
        option,
        Object.keys(options).map(name => `--${name}`),
      ),
    )}`
  }
  return options[option.slice(2)]?.type === 'boolean' ? `${option} takes no value` : `${option} needs a value`
}
