import { AnvilFault, startAnvil } from '../anvil.ts'
import type { Anvil } from '../anvil.ts'
import { readGateway } from '../config/gateway.ts'
import { printProblems } from '../config/problem.ts'
import { openGateway } from '../gateway.ts'
import type { Gateway, GoodConfig } from '../gateway.ts'
import type { GatewayConfig } from '../config/types.ts'
import type { AnyPlugin } from '../plugin.ts'
import { systemClock } from '../services/clock.ts'
import { openLog } from '../services/log.ts'
import { StoreFault } from '../store/store.ts'
import { exit } from './command.ts'
import type { Command, Terminal } from './command.ts'
import { readyKey } from './dev-key.ts'
import type { DevKey } from './dev-key.ts'
import { explainFaults, loadGood, untilSignal } from './serve.ts'
import { readConfigDir } from './verbs.ts'

/** What `npm start` runs: a local node, an account with a key, the gateway, and a line to paste. */
export const createDev = (plugins: readonly AnyPlugin[]): Command => ({
  name: 'dev',
  summary: 'Starts a local Ethereum node and the gateway in front of it, with a key to try.',
  usage: ['dev [--config DIR]'],
  async run(args, terminal) {
    const dir = readConfigDir(args)
    const { config: gateway, problems } = readGateway(dir, terminal.env)
    if (gateway === undefined) {
      printProblems(problems, terminal.err)
      return exit.config
    }
    return untilSignal(asked => develop(gateway, { dir, plugins, asked }, terminal))
  },
})

interface Run {
  readonly dir: string
  readonly plugins: readonly AnyPlugin[]
  /** Resolves when it shall stop. */
  readonly asked: Promise<void>
}

const develop = async (gateway: GatewayConfig, { dir, plugins, asked }: Run, terminal: Terminal): Promise<number> => {
  try {
    const node = await openNode(terminal)
    const config = await loadGood(dir, plugins, { ...terminal, env: { ...terminal.env, DEVNET_URL: node.url } })
    const code =
      config === undefined ? exit.config : await serve(config, { key: await readyKey(gateway, dir), anvil: node.anvil, asked }, terminal)
    await node.stop()
    return code
  } catch (fault) {
    if (!(fault instanceof AnvilFault || fault instanceof StoreFault)) throw fault
    terminal.err(`tollgate: ${fault.message}`)
    return exit.failed
  }
}

/** The operator's own node when DEVNET_URL names one, else anvil. */
const openNode = async ({ env }: Terminal): Promise<Pick<Anvil, 'url' | 'stop'> & { anvil?: Anvil }> => {
  const url = env['DEVNET_URL'] ?? ''
  if (url !== '') return { url, stop: async () => undefined }
  const anvil = await startAnvil()
  return { url: anvil.url, stop: () => anvil.stop(), anvil }
}

interface Trial {
  readonly key: DevKey
  readonly anvil: Anvil | undefined
  readonly asked: Promise<void>
}

const serve = async (config: GoodConfig, { key, anvil, asked }: Trial, { out, err }: Terminal): Promise<number> => {
  const gateway = await explainFaults(openGateway(config, systemClock, openLog('warn')), err)
  if (gateway === undefined) return exit.failed
  for (const line of welcome(config, gateway.urls, key, anvil)) out(line)
  await asked
  await gateway.stop()
  return exit.ok
}

const welcome = ({ networks, unserved }: GoodConfig, urls: Gateway['urls'], key: DevKey, anvil?: Anvil): string[] => {
  const path = `/v3/${key.text}`
  const body = '{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}'
  return [
    '',
    `  HTTP       ${urls.rpc}${path}`,
    `  WebSocket  ${urls.rpc.replace('http', 'ws')}/ws${path}`,
    ...(urls.admin === undefined ? [] : [`  Admin      ${urls.admin}/readyz  ${urls.admin}/metrics`]),
    ...(anvil === undefined ? [] : [`  Node       ${anvil.url} (anvil, ends with this)`]),
    `  Key        kept in ${key.file}`,
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
