import { readGatewayConfig } from '../config/gateway-config.ts'
import { printProblems } from '../config/problem.ts'
import { readArguments, commonOptions } from './args.ts'
import { UsageError, commandSummaries, exitCodes } from './command.ts'
import type { Command, CommandOption } from './command.ts'
import { adminUrl, describeFetchError, requestAdmin } from './gateway-status.ts'

const options = {
  live: {
    type: 'boolean',
    default: false,
    description: 'Asks whether the process works (/livez), not whether it should get traffic (/readyz).',
  },
  ...commonOptions,
} as const satisfies Readonly<Record<string, CommandOption>>

/** For the health check of a container, whose image has no curl. */
export const healthCommand: Command = {
  name: 'health',
  summary: commandSummaries.health,
  usage: ['health [--live|--json] [--config DIR]'],
  positionals: {},
  options,
  examples: {
    health: 'exit code 0 when the gateway should get traffic',
    'health --live --config /etc/tollgate': 'when its process works',
  },
  async run(args, terminal) {
    const { env, out, err } = terminal
    const { live, json, config: dir } = readArguments(args, [], options).values
    if (live && json) throw new UsageError('--live and --json cannot be combined')
    const { config, problems } = readGatewayConfig(dir, env)
    printProblems(problems, terminal)
    if (config === undefined) return exitCodes.config
    const url = adminUrl(config)
    if (url === undefined) {
      err('tollgate: gateway.yaml has no listen.admin with a port to ask')
      return exitCodes.config
    }
    try {
      const response = await requestAdmin(config, url, live ? '/livez' : json ? '/readyz?verbose' : '/readyz')
      const text = (await response.text()).trim()
      ;(response.ok || json ? out : err)(text)
      return response.ok ? exitCodes.ok : exitCodes.failed
    } catch (error) {
      err(`tollgate: no gateway answers at ${url}: ${describeFetchError(error)}`)
      return exitCodes.failed
    }
  },
}
