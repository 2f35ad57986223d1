import { formatAlternatives } from '../util/did-you-mean.ts'
import { getOrCreate } from '../util/memoize.ts'
import { readArguments } from './args.ts'
import { UsageError, commandSummaries, exitCodes } from './command.ts'
import type { Command } from './command.ts'

/** The words that may follow a command, or a command and its subcommand: both are in the usage of the table of commands. */
type Completions = ReadonlyMap<string, readonly string[]>

/** `loadCommands` loads all of them. */
export const createCompletionCommand = (loadCommands: () => Promise<readonly Command[]>): Command => ({
  name: 'completion',
  summary: commandSummaries.completion,
  usage: [`completion ${Object.keys(scripts).join('|')}`],
  positionals: {},
  options: {},
  examples: {
    'completion bash > ~/.local/share/bash-completion/completions/tollgate': 'for bash',
    'completion fish > ~/.config/fish/completions/tollgate.fish': 'for fish',
    'completion zsh > "${fpath[1]}/_tollgate"': 'for zsh',
  },
  async run(args, { out }) {
    const [shell] = readArguments(args, ['SHELL'], {}).positionals
    const format = Object.hasOwn(scripts, shell) ? scripts[shell as keyof typeof scripts] : undefined // it is one of the names
    if (format === undefined) throw new UsageError(`the shell must be ${formatAlternatives(Object.keys(scripts))}, not "${shell}"`)
    const commands = await loadCommands()
    format(topWordsOf(commands), completionsOf(commands)).forEach(line => out(line))
    return exitCodes.ok
  },
})

const topWordsOf = (commands: readonly Command[]): string => [...commands.map(({ name }) => name), 'help', '--version'].join(' ')

/** The longer beginnings first. */
const completionsOf = (commands: readonly Command[]): Completions => {
  const words = new Map<string, Set<string>>()
  const add = (beginning: string, more: readonly string[]) =>
    more.forEach(word => getOrCreate(words, beginning, () => new Set<string>()).add(word))
  for (const { name, usage } of commands) {
    for (const form of usage) {
      const options = [...(form.match(/--[\w-]+/g) ?? []), '--help']
      const subcommands = /^\S+ ([a-z][a-z|-]*)(?= |$)/.exec(form)?.[1]?.split('|') ?? []
      for (const subcommand of subcommands) add(`${name} ${subcommand}`, options)
      add(name, subcommands.length > 0 ? subcommands : options)
    }
    add(name, ['--help'])
  }
  return new Map(
    [...words].map(([beginning, found]) => [beginning, [...found]] as const).sort(([one], [other]) => other.length - one.length),
  )
}

/** `--config` takes a folder; what other options take is not known here. */
const scripts = {
  bash: (topWords: string, completions: Completions) => [
    '_tollgate() {',
    '  local current=${COMP_WORDS[COMP_CWORD]} beginning=${COMP_WORDS[1]} words=',
    `  if ((COMP_CWORD == 1)); then COMPREPLY=($(compgen -W '${topWords}' -- "$current")); return; fi`,
    '  if [[ ${COMP_WORDS[COMP_CWORD-1]} == --config ]]; then COMPREPLY=($(compgen -d -- "$current")); return; fi',
    '  ((COMP_CWORD > 2)) && beginning+=" ${COMP_WORDS[2]}"',
    '  case $beginning in',
    ...formatCases(completions, words => `words='${words}'`),
    '  esac',
    '  COMPREPLY=($(compgen -W "$words" -- "$current"))',
    '}',
    'complete -o default -F _tollgate tollgate',
  ],
  zsh: (topWords: string, completions: Completions) => [
    '#compdef tollgate',
    '_tollgate() {',
    '  local beginning=${words[2]}',
    `  if ((CURRENT == 2)); then compadd -- ${topWords}; return; fi`,
    '  if [[ ${words[CURRENT-1]} == --config ]]; then _files -/; return; fi',
    '  ((CURRENT > 3)) && beginning+=" ${words[3]}"',
    '  case $beginning in',
    ...formatCases(completions, words => `compadd -- ${words}`),
    '  esac',
    '  _files',
    '}',
    '[[ $funcstack[1] == _tollgate ]] && _tollgate || compdef _tollgate tollgate',
  ],
  fish: (topWords: string, completions: Completions) => [
    `complete -c tollgate -n __fish_use_subcommand -f -a '${topWords}'`,
    "complete -c tollgate -l config -r -a '(__fish_complete_directories)'",
    ...Array.from(completions, ([beginning, words]) => {
      const seen = beginning.split(' ').map(word => `__fish_seen_subcommand_from ${word}`)
      return `complete -c tollgate -n '${seen.join('; and ')}' -a '${words.join(' ')}'`
    }),
  ],
} as const

const formatCases = (completions: Completions, format: (words: string) => string): readonly string[] =>
  Array.from(
    completions,
    ([beginning, words]) => `    '${beginning}'${beginning.includes(' ') ? '' : `|'${beginning} '*`}) ${format(words.join(' '))} ;;`,
  )
