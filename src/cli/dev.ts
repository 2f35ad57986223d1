import { AnvilError, startAnvil } from './anvil.ts'
import type { Anvil } from './anvil.ts'
import { readGatewayConfig } from '../config/gateway-config.ts'
import { printProblems } from '../config/problem.ts'
import { openGateway } from '../core/gateway.ts'
import type { Gateway, ValidConfig } from '../core/gateway.ts'
import type { GatewayConfig } from '../config/types.ts'
import type { AnyPlugin } from '../plugin/plugin.ts'
import { systemClock } from '../services/clock.ts'
import { openLog } from '../services/log.ts'
import { StoreError } from '../store/store.ts'
import { exitCodes } from './command.ts'
import type { Command, Terminal } from './command.ts'
import { getOrCreateDevKey } from './dev-key.ts'
import type { DevKey } from './dev-key.ts'
import { printStartupErrors, loadValidConfig, runUntilSignal } from './startup.ts'
import { readConfigDir } from './args.ts'

/** What `npm start` runs: a local node, an account with a key, the gateway, and a line to paste. */
export const createDevCommand = (plugins: readonly AnyPlugin[]): Command => ({
  name: 'dev',
  summary: 'Starts a local Ethereum node and the gateway in front of it, with a key to try.',
  usage: ['dev [--config DIR]'],
  async run(args, terminal) {
    const dir = readConfigDir(args)
    const { config: gateway, problems } = readGatewayConfig(dir, terminal.env)
    if (gateway === undefined) {
      printProblems(problems, terminal.err)
      return exitCodes.config
    }
    return runUntilSignal(asked => runDev(gateway, { dir, plugins, stopRequested: asked }, terminal))
  },
})

interface DevOptions {
  readonly dir: string
  readonly plugins: readonly AnyPlugin[]
  /** Resolves when it shall stop. */
  readonly stopRequested: Promise<void>
}

const runDev = async (gateway: GatewayConfig, { dir, plugins, stopRequested }: DevOptions, terminal: Terminal): Promise<number> => {
  try {
    const node = await openDevNode(terminal)
    const config = await loadValidConfig(dir, plugins, { ...terminal, env: { ...terminal.env, DEVNET_URL: node.url } })
    const code =
      config === undefined
        ? exitCodes.config
        : await serveUntilStopped(config, { key: await getOrCreateDevKey(gateway, dir), anvil: node.anvil, stopRequested }, terminal)
    await node.stop()
    return code
  } catch (fault) {
    if (!(fault instanceof AnvilError || fault instanceof StoreError)) throw fault
    terminal.err(`tollgate: ${fault.message}`)
    return exitCodes.failed
  }
}

/** The operator's own node when DEVNET_URL names one, else anvil. */
const openDevNode = async ({ env }: Terminal): Promise<Pick<Anvil, 'url' | 'stop'> & { anvil?: Anvil }> => {
  const url = env['DEVNET_URL'] ?? ''
  if (url !== '') return { url, stop: async () => undefined }
  const anvil = await startAnvil()
  return { url: anvil.url, stop: () => anvil.stop(), anvil }
}

interface DevGatewayOptions {
  readonly key: DevKey
  readonly anvil: Anvil | undefined
  readonly stopRequested: Promise<void>
}

const serveUntilStopped = async (
  config: ValidConfig,
  { key, anvil, stopRequested }: DevGatewayOptions,
  { out, err }: Terminal,
): Promise<number> => {
  const gateway = await printStartupErrors(openGateway(config, systemClock, openLog('warn')), err)
  if (gateway === undefined) return exitCodes.failed
  for (const line of formatWelcome(config, gateway.urls, key, anvil)) out(line)
  await stopRequested
  await gateway.stop()
  return exitCodes.ok
}

const formatWelcome = ({ networks, unserved }: ValidConfig, urls: Gateway['urls'], key: DevKey, anvil?: Anvil): string[] => {
  const path = `/v3/${key.apiKey}`
  const body = '{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}'
  return [
    '',
    `  HTTP       ${urls.rpc}${path}`,
    `  WebSocket  ${urls.rpc.replace('http', 'ws')}/ws${path}`,
    ...(urls.admin === undefined ? [] : [`  Admin      ${urls.admin}/readyz  ${urls.admin}/metrics`]),
    ...(anvil === undefined ? [] : [`  Node       ${anvil.url} (anvil, ends with this)`]),
    `  Key        kept in ${key.displayPath}`,
    `  Networks   ${networks.map(network => network.name).join(', ')}`,
    ...(unserved.length === 0 ? [] : [`             not served until a URL is set: ${unserved.map(each => each.network).join(', ')}`]),
    '',
    'Try it:',
    '',
    `curl -s ${urls.rpc}${path} -H 'Content-Type: application/json' -d '${body}'`,
    '',
    'Ctrl-C stops both.',
  ]
}
