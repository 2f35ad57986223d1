import { StoreError } from '../store/store.ts'
import type { Style } from '../util/style.ts'

/** Where a command writes and what it reads of its environment; tests pass their own. */
export interface Terminal {
  out(line: string): void
  err(line: string): void
  /** Overwrites the last line; only where standard error is a terminal. */
  readonly status?: (text: string) => void
  /** Present where the output may be in color. */
  readonly styleOut?: Style
  readonly styleErr?: Style
  /** Somebody watches standard output, which is a terminal. */
  readonly isWatched?: boolean
  readonly env: Readonly<Record<string, string | undefined>>
}

/** Exit codes, after sysexits.h: systemd and CI tell a bad configuration from a crash. `changes`: of a dry run that would change something. */
export const exitCodes = { ok: 0, failed: 1, changes: 2, usage: 64, config: 78 } as const

/** `--name`; what parseArgs reads of it, and its line in `--help` and in the reference. */
export interface CommandOption {
  readonly type: 'string' | 'boolean'
  /** Stands for the value in the help; a boolean has none. */
  readonly placeholder?: string
  readonly default?: string | boolean
  readonly description: string
}

/** One verb of the command line. */
export interface Command {
  readonly name: string
  /** One line for `tollgate help`. */
  readonly summary: string
  /** Each form in which it may be called, without `tollgate`. */
  readonly usage: readonly string[]
  /** The description of each positional argument in `usage`. */
  readonly positionals: Readonly<Record<string, string>>
  /** Of all forms together. */
  readonly options: Readonly<Record<string, CommandOption>>
  /** Command lines without `tollgate`, and what each does. */
  readonly examples: Readonly<Record<string, string>>
  /** Resolves with the exit code. Throws UsageError, CommandError or StoreError. */
  run(args: readonly string[], terminal: Terminal): Promise<number>
}

/** One line for each command, apart from the commands: `tollgate help` loads none of them. In the order of the help. */
export const commandSummaries = {
  dev: 'Starts a local Ethereum node and the gateway in front of it, with a key to try; writes ./configs if it is missing.',
  start: 'Serves the networks of a configuration directory.',
  check: 'Reports every problem of a configuration; starts nothing.',
  show: 'Prints the effective configuration: variables replaced, defaults filled in, secrets masked.',
  explain: 'Prints what would happen to a call, plugin by plugin; sends nothing. Exit code 1 when it would be refused.',
  test: 'Runs the cases of networks/NAME.test.yaml, without nodes, a store or real time.',
  plugins: 'Lists plugins, describes their options, tests a plugin, and writes a new one as a package with its tests.',
  schema: 'Prints the JSON Schema of a kind of file, for YAML editors; with --write, writes all of them.',
  init: 'Writes a commented configuration to start from: gateway.yaml, a method table, and a network for a local node.',
  networks: 'Writes the file of a network, from a list of well-known chains; or lists these.',
  nodes: 'Lists the nodes of all networks, and what has kept calls from them; drains one before maintenance, and puts it back.',
  evidence: 'Lists wrong results of nodes, shows what proves that they are wrong, and clears them.',
  'log-level': 'Shows and sets the log level of the running gateway, until it is restarted.',
  health: 'Asks the running gateway whether it should get traffic: exit code 0 or 1.',
  accounts: 'Adds, lists, changes and suspends accounts, one by one or from files; prints links to sign in to the dashboard.',
  people: 'Lists, changes and removes the people of an account, who sign in to the dashboard.',
  keys: 'Adds, lists, changes, rotates, suspends and revokes the API keys of an account; finds a key by its end.',
  alerts:
    'Shows and sets who is told when an account has used a share of its credits or its calls fail or are slow, and tries its webhook; prints the secret of a webhook of operators.',
  changes: 'Lists who changed accounts, keys, people, tokens and the state of nodes: by commands and in the dashboard.',
  usage: "Shows an account's credits of today, or the calls of one account or all by method, network and other fields; exports them.",
  errors: 'Counts failed calls of all accounts, or of one, by network and kind of failure.',
  requests: 'Lists the logged requests of an account; shows the one with an id that a customer quotes: key, outcome, node and duration.',
  audit: 'Verifies that leased credits and counted calls of every account agree for today.',
  store: 'Copies a store into another, from LMDB to Redis or back; backs up an embedded store; or repairs the day of a store.',
  plan: 'Says what so many accounts, calls and gateways ask of Redis: CPU, memory, connections and nodes.',
  reload: 'Asks the running gateway to reload its configuration; prints what has changed, or the problems.',
  completion: 'Prints the completion of commands and options for a shell: bash, zsh or fish.',
  top: 'Shows calls, cache and credits of a running gateway, and the state of its nodes.',
} as const

export type CommandName = keyof typeof commandSummaries

/** How the person at the terminal calls this program: npx finds it where no shell would. */
export const programName = ({ env }: Pick<Terminal, 'env'>): string => (env['npm_command'] === 'exec' ? 'npx tollgate' : 'tollgate')

/** The arguments are wrong; printed with the usage, exit code 64. */
export class UsageError extends Error {}

/** The command cannot be carried out; the message is the one line that the operator sees. */
export class CommandError extends Error {}

/** Resolves with the exit code: 1 after a line about what the operator must change, as a store that is unreachable. Throws UsageError. */
export const runCommand = async (command: Command, args: readonly string[], terminal: Terminal): Promise<number> => {
  try {
    return await command.run(args, terminal)
  } catch (error) {
    if (!(error instanceof CommandError || error instanceof StoreError)) throw error
    terminal.status?.('')
    terminal.err(`tollgate: ${error.message}`)
    return exitCodes.failed
  }
}

/** What is printed below a usage error, so short that the error stays in view: the forms of the subcommand, or all where none is named. */
export const formatUsage = ({ name, usage }: Pick<Command, 'name' | 'usage'>, [first]: readonly string[]): readonly string[] => {
  const formsOfSubcommand = usage.filter(form => form.split(' ')[1] === first)
  const forms = formsOfSubcommand.length > 0 ? formsOfSubcommand : usage
  return ['', ...forms.map(form => `  tollgate ${form}`), '', `\`tollgate ${name} --help\` describes the arguments and options.`]
}

/** What `tollgate NAME --help` prints. */
export const formatCommandHelp = ({ summary, usage, positionals, options, examples }: Command): readonly string[] => {
  const rows = [
    ...Object.entries(positionals),
    ...Object.entries(options).map(([name, option]) => [formatOption(name, option), describeOption(option)] as const),
  ]
  const width = Math.max(...rows.map(([name]) => name.length))
  return [
    summary,
    '',
    ...usage.map(form => `  tollgate ${form}`),
    '',
    ...rows.map(([name, description]) => `  ${name.padEnd(width)}  ${description}`),
    '',
    'Examples:',
    '',
    ...formatExamples(examples).map(line => `  ${line}`),
  ]
}

/** Each may be pasted into a shell. */
export const formatExamples = (examples: Command['examples']): readonly string[] => {
  const width = Math.max(...Object.keys(examples).map(line => line.length))
  return Object.entries(examples).map(([line, does]) => `tollgate ${line.padEnd(width)}  # ${does}`)
}

export const formatOption = (name: string, { placeholder }: CommandOption): string =>
  placeholder === undefined ? `--${name}` : `--${name} ${placeholder}`

const describeOption = ({ description, default: value }: CommandOption): string =>
  typeof value === 'string' ? `${description} Default: ${value}.` : description
