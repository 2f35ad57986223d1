import { parseArgs } from 'node:util'
import { didYouMean, formatAlternatives } from '../util/did-you-mean.ts'
import { UsageError } from './command.ts'
import type { CommandOption, Terminal } from './command.ts'

/** What a command does after its subcommand. */
export type Subcommand = (args: readonly string[], terminal: Terminal) => Promise<number>

/** Runs the subcommand that the first argument names. */
export const runSubcommand = (
  subcommands: Readonly<Record<string, Subcommand>>,
  [name, ...args]: readonly string[],
  terminal: Terminal,
): Promise<number> => {
  const names = Object.keys(subcommands)
  const subcommand = name !== undefined && Object.hasOwn(subcommands, name) ? subcommands[name] : undefined
  if (subcommand !== undefined) return subcommand(args, terminal)
  if (name === undefined) throw new UsageError(`missing subcommand: expected ${formatAlternatives(names)}`)
  throw new UsageError(`unknown subcommand "${name}": expected ${formatAlternatives(names)}${formatHint(didYouMean(name, names))}`)
}

export const configOption = {
  type: 'string',
  placeholder: 'DIR',
  default: 'configs',
  description: 'The configuration directory.',
} as const satisfies CommandOption

/** Added to a command that the operator is told to run: without it, the command would be about another directory. */
export const configArgument = (dir: string): string => (dir === configOption.default ? '' : ` --config ${dir}`)

export const jsonOption = { type: 'boolean', default: false, description: 'Prints JSON, for programs.' } as const satisfies CommandOption

/** The options that most commands have. */
export const commonOptions = { json: jsonOption, config: configOption } as const

type Options = Readonly<Record<string, CommandOption>>
type OptionValues<O extends Options> = ReturnType<typeof parseArgs<{ options: O }>>['values']
type ParsedArguments<O extends Options, N> = {
  readonly values: OptionValues<O>
  readonly positionals: { readonly [K in keyof N]: string }
}

/** Reads `options` and exactly one positional argument for each of `names`. Throws UsageError. */
export const readArguments = <const O extends Options, const N extends readonly string[]>(
  args: readonly string[],
  names: N,
  options: O,
): ParsedArguments<O, N> => {
  const { values, positionals } = parseOrThrow(args, options)
  const missing = names[positionals.length]
  if (missing !== undefined) throw new UsageError(`missing argument ${missing}`)
  if (positionals.length > names.length) throw new UsageError(`unexpected argument "${positionals[names.length]}"`)
  // As many as there are names: checked in the two lines above.
  return { values, positionals: positionals as { readonly [K in keyof N]: string } }
}

/** Reads `options` and at most one positional argument. Throws UsageError. */
export const readOptionalArgument = <const O extends Options>(
  args: readonly string[],
  options: O,
): { readonly values: OptionValues<O>; readonly positional: string | undefined } => {
  const { values, positionals } = parseOrThrow(args, options)
  if (positionals.length > 1) throw new UsageError(`unexpected argument "${positionals[1]}"`)
  return { values, positional: positionals[0] }
}

/** The value of `--config`, for commands that take nothing else. */
export const readConfigDir = (args: readonly string[]): string => readArguments(args, [], { config: configOption }).values.config

/** `a,b` as a list. */
export const readList = (name: string, text: string | undefined): readonly string[] | undefined => {
  const items = text
    ?.split(',')
    .map(item => item.trim())
    .filter(item => item !== '')
  if (items?.length === 0) throw new UsageError(`--${name} requires at least one name`)
  return items && [...new Set(items)]
}

/** Undefined for any other text. */
export const parsePositiveInteger = (text: string): number | undefined => {
  const number = /^\d+$/.test(text) ? Number(text) : 0
  return Number.isSafeInteger(number) && number > 0 ? number : undefined
}

export const formatHint = (text: string | undefined): string => (text === undefined ? '' : `; ${text}`)

const parseOrThrow = <const O extends Options>(
  args: readonly string[],
  options: O,
): { readonly values: OptionValues<O>; readonly positionals: readonly string[] } => {
  try {
    return parseArgs({ args: [...args], allowPositionals: true, options })
  } catch (error) {
    throw new UsageError(describeParseError(error as NodeJS.ErrnoException, options)) // parseArgs throws nothing else
  }
}

/** In place of the messages of parseArgs, which explain how to circumvent its rules. */
const describeParseError = ({ code, message }: NodeJS.ErrnoException, options: Options): string => {
  const option = /'(--?[^ '=]+)/.exec(message)?.[1] ?? ''
  if (code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION') {
    const names = Object.keys(options).map(name => `--${name}`)
    return `unknown option ${option}${formatHint(didYouMean(option, names))}`
  }
  return options[option.slice(2)]?.type === 'boolean' ? `${option} takes no value` : `${option} requires a value`
}
