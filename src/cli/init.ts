import { join } from 'node:path'
import { displayPath } from '../config/config-files.ts'
import { configArgument, configOption, readConfigDir } from './args.ts'
import { commandSummaries, exitCodes, programName } from './command.ts'
import type { Command } from './command.ts'
import { networkText, shippedSupportFiles, writeNewFiles } from './config-template.ts'

/** The network of a new configuration: a node of this machine, anvil or geth --dev, say. */
const localNetwork = {
  name: 'local',
  chainId: 31337,
  currency: 'ETH',
  blockTime: '100ms',
  hosts: ['localhost', '127.0.0.1'],
  url: '${LOCAL_URL:-http://127.0.0.1:8545}',
}

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
    const files = { ...shippedSupportFiles(), 'networks/local.yaml': networkText(localNetwork) }
    writeNewFiles(dir, files)
    for (const path of Object.keys(files)) out(`wrote ${displayPath(join(dir, path))}`)
    const option = configArgument(dir)
    out('')
    out('Next:')
    const program = programName(terminal)
    out(`  ${program} check${option}                      # every problem, with its place and fix`)
    out(`  ${program} networks add 8453${option}          # a well-known chain; ${program} networks list shows them`)
    out(`  ${program} accounts add NAME --plan core${option}`)
    out(`  ${program} keys add NAME${option}`)
    out(`  ${program} start${option}`)
    return exitCodes.ok
  },
}
