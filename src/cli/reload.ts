import { readGatewayConfig } from '../config/gateway-config.ts'
import { printProblems } from '../config/problem.ts'
import { readArguments, commonOptions } from './args.ts'
import { commandSummaries, exitCodes } from './command.ts'
import type { Command } from './command.ts'
import { printReload } from './gateway-status.ts'

/** For those who cannot send SIGHUP, or want to see what has become of it. */
export const reloadCommand: Command = {
  name: 'reload',
  summary: commandSummaries.reload,
  usage: ['reload [--json] [--config DIR]'],
  positionals: {},
  options: commonOptions,
  examples: {
    'reload --config /etc/tollgate': 'applies the files of that folder; exit code 78 where they have problems',
    'reload --json': 'the changes or the problems, for programs',
  },
  async run(args, terminal) {
    const { config: dir, json } = readArguments(args, [], commonOptions).values
    const { config, problems } = readGatewayConfig(dir, terminal.env)
    printProblems(problems, terminal)
    if (config === undefined) return exitCodes.config
    const texts = { method: 'POST', json, refused: 'not reloaded: what ran before serves on', unchanged: 'nothing has changed' } as const
    return printReload(config, texts, terminal)
  },
}
