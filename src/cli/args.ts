import { parseArgs } from 'node:util'
import type { ParseArgsConfig } from 'node:util'
import { didYouMean } from '../util/did-you-mean.ts'
import { UsageError } from './command.ts'
import type { Terminal } from './command.ts'

/** What a command does after its first word. */
export type Subcommand = (args: readonly string[], terminal: Terminal) => Promise<number>

/** Runs the verb that the first word names. */
export const runSubcommand = (
  subcommands: Readonly<Record<string, Subcommand>>,
  [name, ...args]: readonly string[],
  terminal: Terminal,
): Promise<number> => {
  const names = Object.keys(subcommands)
  const subcommand = name !== undefined && Object.hasOwn(subcommands, name) ? subcommands[name] : undefined
  if (subcommand !== undefined) return subcommand(args, terminal)
  if (name === undefined) throw new UsageError(`a word is missing: ${names.join(', ')}`)
  throw new UsageError(`"${name}" is not one of ${names.join(', ')}${formatHint(didYouMean(name, names))}`)
}

/** The options of all commands on the store. */
const commonOptions = {
  config: { type: 'string', default: 'configs' },
  json: { type: 'boolean', default: false },
} as const

type OptionDefinitions = NonNullable<ParseArgsConfig['options']>
type OptionValues<O extends OptionDefinitions> = ReturnType<typeof parseArgs<{ options: O }>>['values']
type ParsedArguments<O extends OptionDefinitions, N> = {
  readonly values: OptionValues<O>
  readonly positionals: { readonly [K in keyof N]: string }
}

/** Reads `--config`, `--json` and these options, and as many other words as there are `names` for them. Throws Misuse. */
export const readStoreArguments = <const O extends OptionDefinitions, const N extends readonly string[]>(
  args: readonly string[],
  names: N,
  options: O,
): ParsedArguments<O & typeof commonOptions, N> => readArguments(args, names, { ...options, ...commonOptions })

/** The same for a command that has no other options than these. */
export const readArguments = <const O extends OptionDefinitions, const N extends readonly string[]>(
  args: readonly string[],
  names: N,
  options: O,
): ParsedArguments<O, N> => {
  const { values, positionals } = parseOrThrow(args, options)
  const missing = names[positionals.length]
  if (missing !== undefined) throw new UsageError(`${missing} is missing`)
  if (positionals.length > names.length) throw new UsageError(`"${positionals[names.length]}" is one word too many`)
  // As many words as names, as was just checked.
  return { values, positionals: positionals as { readonly [K in keyof N]: string } }
}

/** The value of `--config`, for commands that take no other word. */
export const readConfigDir = (args: readonly string[]): string => readArguments(args, [], { config: commonOptions.config }).values.config

/** `a,b` as a list. */
export const readList = (name: string, text: string | undefined): readonly string[] | undefined => {
  const items = text
    ?.split(',')
    .map(item => item.trim())
    .filter(item => item !== '')
  if (items?.length === 0) throw new UsageError(`--${name} needs at least one name`)
  return items && [...new Set(items)]
}

export const formatHint = (text: string | undefined): string => (text === undefined ? '' : `; ${text}`)

const parseOrThrow = <const O extends OptionDefinitions>(
  args: readonly string[],
  options: O,
): { readonly values: OptionValues<O>; readonly positionals: readonly string[] } => {
  try {
    return parseArgs({ args: [...args], allowPositionals: true, options })
  } catch (error) {
    throw new UsageError(describeParseError(error as NodeJS.ErrnoException, options)) // parseArgs throws nothing else
  }
}

/** What parseArgs complains of, in our words: its own tell how to get round its rules. */
const describeParseError = ({ code, message }: NodeJS.ErrnoException, options: OptionDefinitions): string => {
  const option = /'(--?[^ '=]+)/.exec(message)?.[1] ?? ''
  if (code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION') {
    return `there is no option ${option}${formatHint(
      didYouMean(
        option,
        Object.keys(options).map(name => `--${name}`),
      ),
    )}`
  }
  return options[option.slice(2)]?.type === 'boolean' ? `${option} takes no value` : `${option} needs a value`
}
