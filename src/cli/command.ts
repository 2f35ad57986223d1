/** Where a command writes and what it reads of its environment; tests pass their own. */
export interface Terminal {
  out(line: string): void
  err(line: string): void
  /** Overwrites the last line; only where standard error is a terminal. */
  readonly status?: (text: string) => void
  readonly env: Readonly<Record<string, string | undefined>>
}

/** Exit codes, after sysexits.h: systemd and CI tell a bad configuration from a crash. */
export const exitCodes = { ok: 0, failed: 1, usage: 64, config: 78 } as const

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
  /** Resolves with the exit code. Throws UsageError for wrong arguments. */
  run(args: readonly string[], terminal: Terminal): Promise<number>
}

/** How the person at the terminal calls this program: npx finds it where no shell would. */
export const programName = ({ env }: Pick<Terminal, 'env'>): string => (env['npm_command'] === 'exec' ? 'npx tollgate' : 'tollgate')

/** The arguments are wrong; printed with the usage, exit code 64. */
export class UsageError extends Error {}

/** What `tollgate NAME --help` prints. */
export const formatCommandHelp = ({ summary, usage, positionals, options }: Command): readonly string[] => {
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
  ]
}

export const formatOption = (name: string, { placeholder }: CommandOption): string =>
  placeholder === undefined ? `--${name}` : `--${name} ${placeholder}`

const describeOption = ({ description, default: value }: CommandOption): string =>
  typeof value === 'string' ? `${description} Default: ${value}.` : description
