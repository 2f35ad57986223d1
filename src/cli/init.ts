import { join } from 'node:path'
import { displayPath } from '../config/config-files.ts'
import { configArgument, configOption, readConfigDir } from './args.ts'
import { commandSummaries, exitCodes, programName } from './command.ts'
import type { Command } from './command.ts'
import { newConfigFiles, writeNewFiles } from './config-template.ts'

/** Writes a commented configuration that `check` accepts. */
export const initCommand: Command = {
  name: 'init',
  summary: commandSummaries.init,
  usage: ['init [--config DIR]'],
  positionals: {},
  options: { config: configOption },
  examples: {
    init: 'writes ./configs',
    'init --config /etc/tollgate': 'writes that folder',
  },
  async run(args, terminal) {
    const { out } = terminal
    const dir = readConfigDir(args)
    const files = newConfigFiles()
    writeNewFiles(dir, files)
    for (const path of Object.keys(files)) out(`wrote ${displayPath(join(dir, path))}`)
    const option = configArgument(dir)
    out('')
    out('Next:')
    const program = programName(terminal)
    out(`  ${program} dev${option}                        # a node, the gateway, and a call to paste`)
    out(`  ${program} check${option}                      # every problem, with its place and fix`)
    out(`  ${program} networks add 8453${option}          # a well-known chain; ${program} networks list shows them`)
    out(`  ${program} accounts add NAME --plan core${option}`)
    out(`  ${program} keys add NAME${option}`)
    out(`  ${program} start${option}`)
    return exitCodes.ok
  },
}
