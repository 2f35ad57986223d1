import { readGatewayConfig } from '../config/gateway-config.ts'
import { printProblems } from '../config/problem.ts'
import { configOption, readArguments } from './args.ts'
import { commandSummaries, exitCodes } from './command.ts'
import type { Command, CommandOption } from './command.ts'
import { adminUrl, describeFetchError, requestAdmin } from './gateway-status.ts'

const options = {
  live: {
    type: 'boolean',
    default: false,
    description: 'Asks whether the process works (/livez), not whether it should get traffic (/readyz).',
  },
  config: configOption,
} as const satisfies Readonly<Record<string, CommandOption>>

/** For the health check of a container, whose image has no curl. */
export const healthCommand: Command = {
  name: 'health',
  summary: commandSummaries.health,
  usage: ['health [--live] [--config DIR]'],
  positionals: {},
  options,
  async run(args, { env, out, err }) {
    const { live, config: dir } = readArguments(args, [], options).values
    const { config, problems } = readGatewayConfig(dir, env)
    printProblems(problems, err)
    if (config === undefined) return exitCodes.config
    const url = adminUrl(config)
    if (url === undefined) {
      err('tollgate: gateway.yaml has no listen.admin with a port to ask')
      return exitCodes.config
    }
    try {
      const response = await requestAdmin(config, url, live ? '/livez' : '/readyz')
      const text = (await response.text()).trim()
      ;(response.ok ? out : err)(text)
      return response.ok ? exitCodes.ok : exitCodes.failed
    } catch (error) {
      err(`tollgate: no gateway answers at ${url}: ${describeFetchError(error)}`)
      return exitCodes.failed
    }
  },
}
