import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import type { DestinationStream } from 'pino'
import { findAnvil, installAnvil, startAnvil } from './anvil.ts'
import type { Anvil } from './anvil.ts'
import { readGatewayConfig } from '../config/gateway-config.ts'
import { formatProblem, printProblems } from '../config/problem.ts'
import type { PartialProblem } from '../config/problem.ts'
import { openFileWatch } from '../config/config-files.ts'
import type { FileWatch } from '../config/config-files.ts'
import { formatChange } from '../core/config-changes.ts'
import { openGateway } from '../core/gateway.ts'
import type { Gateway, ValidConfig } from '../core/gateway.ts'
import type { ReloadReport } from '../core/reloader.ts'
import type { GatewayConfig } from '../config/types.ts'
import type { LoadablePlugin } from '../plugin/deferred-plugin.ts'
import { systemClock } from '../services/clock.ts'
import { openLog } from '../services/log.ts'
import { hashApiKey, isWellFormedKey, generateAccountId, createKey, keyRefusal } from '../services/accounts/api-key.ts'
import { createSignInToken, signInUrl } from '../portal/people/one-time-links.ts'
import { getOrAddPerson } from '../portal/people/people.ts'
import { openStore } from '../store/open-store.ts'
import type { Store } from '../store/store.ts'
import { commandSummaries, exitCodes } from './command.ts'
import type { Command, Terminal } from './command.ts'
import { createConfigReader, printStartupErrors, loadValidConfig, surviveBackgroundBugs } from './gateway-process.ts'
import { runUntilSignal } from './stop-signals.ts'
import { configOption, readConfigDir } from './args.ts'
import { createCallLines } from './call-lines.ts'
import { newConfigFiles, writeNewFiles } from './config-template.ts'
import { createFolder } from '../util/files.ts'
import { isJsonObject } from '../util/json.ts'
import { plain } from '../util/style.ts'
import type { Style } from '../util/style.ts'

/** What `npm start` runs: a local node, an account with a key, the gateway, and a call to paste into a shell. */
export const createDevCommand = (plugins: readonly LoadablePlugin[]): Command => ({
  name: 'dev',
  summary: commandSummaries.dev,
  usage: ['dev [--config DIR]'],
  positionals: {},
  options: { config: configOption },
  examples: {
    dev: 'a node, a gateway, and a call to paste',
    'dev --config examples/configs': 'the same with another configuration',
  },
  async run(args, terminal) {
    const dir = readConfigDir(args)
    if (dir === configOption.default && !existsSync(dir)) writeNewConfig(dir, terminal)
    const { config: gateway, problems } = readGatewayConfig(dir, terminal.env)
    if (gateway === undefined) {
      printProblems(problems, terminal)
      return exitCodes.config
    }
    return runUntilSignal(['SIGTERM', 'SIGINT', 'SIGHUP'], stopRequested => runDev(gateway, { dir, plugins, stopRequested }, terminal))
  },
})

/** What `tollgate init` writes. */
const writeNewConfig = (dir: string, { out }: Terminal): void => {
  writeNewFiles(dir, newConfigFiles())
  out(`Wrote a configuration to ${dir}.`)
}

interface DevOptions {
  readonly dir: string
  readonly plugins: readonly LoadablePlugin[]
  /** Resolves at the first SIGTERM or SIGINT, and when the terminal is closed. */
  readonly stopRequested: Promise<unknown>
}

const runDev = async (gateway: GatewayConfig, options: DevOptions, terminal: Terminal): Promise<number> => {
  const node = await openDevNode(options, terminal)
  const code = await serveWithNode(gateway, node, options, terminal).finally(() => node.stop())
  const newLine = terminal.isWatched === true ? '\n' : '' // after the ^C of the terminal
  if (code === exitCodes.ok) terminal.out(`${newLine}The gateway ${node.anvil === undefined ? 'has' : 'and the node have'} stopped.`)
  return code
}

const serveWithNode = async (
  gateway: GatewayConfig,
  node: DevNode,
  { dir, plugins, stopRequested }: DevOptions,
  terminal: Terminal,
): Promise<number> => {
  const env = { ...terminal.env, ...node.env }
  const watchedFiles = openFileWatch(dir, systemClock)
  const config = await loadValidConfig(dir, plugins, { ...terminal, env })
  if (config === undefined) return exitCodes.config
  const key = await getOrCreateDevKey(gateway, dir)
  return serveUntilStopped(config, { dir, plugins, env, key, anvil: node.anvil, watchedFiles, stopRequested }, terminal)
}

/** The node, and the variables that lead the network devnet to it. */
interface DevNode {
  readonly env: Readonly<Record<string, string>>
  readonly anvil?: Anvil
  stop(): Promise<void>
}

/** The operator's node when DEVNET_URL names one, else anvil, whose URL serves WebSockets too. */
const openDevNode = async ({ stopRequested }: DevOptions, terminal: Terminal): Promise<DevNode> => {
  const { env } = terminal
  if ((env['DEVNET_URL'] ?? '') !== '') return { env: {}, stop: async () => undefined }
  const anvil = await startAnvil([], findAnvil(env) ?? (await installAnvil(terminal, stopRequested)))
  return { env: { DEVNET_URL: anvil.url, DEVNET_WS_URL: anvil.url.replace('http', 'ws') }, anvil, stop: () => anvil.stop() }
}

interface DevGatewayOptions extends DevOptions {
  readonly env: Terminal['env']
  readonly key: DevKey
  readonly anvil: Anvil | undefined
  readonly watchedFiles: FileWatch
}

const serveUntilStopped = async (
  config: ValidConfig,
  { dir, plugins, env, key, anvil, watchedFiles, stopRequested }: DevGatewayOptions,
  terminal: Terminal,
): Promise<number> => {
  const { out, err, styleOut = plain, isWatched } = terminal
  // A failed reload is printed with the lines of its problems, by formatReload().
  const log = openLog('warn', terminalLogDestination(out, styleOut, ['reload-failed']))
  const addPlugins = surviveBackgroundBugs(log)
  addPlugins(config)
  const fileWatch = config.gateway.watch ? watchedFiles : undefined
  const readConfig = createConfigReader(dir, plugins, { env, fileWatch, addPlugins })
  const accountName = (id: string) => readAccountName(config.gateway, id)
  const observer = isWatched === true ? createCallLines(terminal, { clock: systemClock, accountName }) : undefined
  const gateway = await printStartupErrors(openGateway(config, systemClock, log, { readConfig, observer, checksContext: true }), err)
  if (gateway === undefined) return exitCodes.failed
  const portalUrl = config.gateway.portal.url ?? gateway.urls.portal
  const portalLink = portalUrl && (await createDevSignInLink(config.gateway, portalUrl))
  for (const line of formatWelcome(config, { ...gateway.urls, portalLink }, { dir, key, anvil, style: styleOut })) out(line)
  fileWatch?.start(async () => {
    const report = await gateway.reloader?.reload()
    if (report !== undefined) out(formatReload(report, styleOut))
  })
  await stopRequested
  fileWatch?.stop()
  await gateway.stop(0)
  return exitCodes.ok
}

const formatReload = ({ isApplied, changes, problems }: ReloadReport, style: Style): string =>
  !isApplied
    ? [...problems.map(problem => formatWithSourceLine(problem, style)), style('error', 'Not reloaded: what ran before serves on.')].join(
        '\n\n',
      )
    : `${style('ok', 'Reloaded:')} ${changes.map(formatChange).join(', ') || 'nothing has changed'}`

const formatWithSourceLine = ({ file, line = 1, column = 1, message, ...rest }: PartialProblem, style: Style): string =>
  file === undefined ? message : formatProblem({ file, line, column, message, ...rest }, { style })

type WelcomeOptions = Pick<DevGatewayOptions, 'dir' | 'key' | 'anvil'> & { readonly style: Style }

type WelcomeUrls = Gateway['urls'] & { readonly portalLink: string | undefined }

const formatWelcome = (
  { networks, unserved, gateway }: ValidConfig,
  urls: WelcomeUrls,
  { dir, key, anvil, style }: WelcomeOptions,
): string[] => {
  const field = (name: string, url: string, rest = '') =>
    `  ${style('title', name)}${' '.repeat(fieldNameChars - name.length)}${style('place', url)}${rest}`
  const path = `/v3/${key.apiKey}`
  const body = '{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}'
  return [
    '',
    field('HTTP', `${urls.rpc}${path}`),
    field('WebSocket', `${urls.rpc.replace('http', 'ws')}/ws${path}`),
    ...(urls.portalLink === undefined ? [] : [field('Dashboard', urls.portalLink)]),
    ...(urls.admin === undefined ? [] : [field('Admin', `${urls.admin}/readyz  ${urls.admin}/metrics`)]),
    ...(urls.admin === undefined || gateway.admin.token === undefined
      ? []
      : [field('Operator', `${(gateway.admin.url ?? urls.admin).replace(/\/$/, '')}/operator`, ' (sign in with admin.token)')]),
    ...(anvil === undefined ? [] : [field('Node', anvil.url, ' (anvil; stops with the gateway)')]),
    field('Key', '', `stored in ${key.displayPath}`),
    field('Networks', '', networks.map(network => network.name).join(', ')),
    ...(unserved.length === 0 ? [] : [field('', '', `not served until a URL is set: ${unserved.map(each => each.network).join(', ')}`)]),
    '',
    'Try it:',
    '',
    `curl -s ${urls.rpc}${path} -H 'Content-Type: application/json' -d '${body}'`,
    '',
    ...(gateway.watch ? [`Changes of the YAML files in ${dir} are applied when they are saved.`] : []),
    anvil === undefined ? 'Ctrl-C stops the gateway.' : 'Ctrl-C stops the gateway and the node.',
  ]
}

const fieldNameChars = 11

/** A link that opens the dashboard of the account `dev`, signed in, once. */
const createDevSignInLink = async ({ store: address }: GatewayConfig, portalUrl: string): Promise<string | undefined> => {
  const store = await openStore(address, systemClock)
  try {
    const account = await store.account(devAccountName)
    if (account === undefined) return undefined
    const person = await getOrAddPerson(store, systemClock, { account: account.id, name: 'owner', role: 'owner' })
    return signInUrl(portalUrl, await createSignInToken(store, systemClock, person))
  } finally {
    await store.close()
  }
}

/** The store is opened once for each account that calls. */
const readAccountName = async ({ store: address }: GatewayConfig, id: string): Promise<string | undefined> => {
  const store = await openStore(address, systemClock)
  try {
    return (await store.account(id))?.name
  } finally {
    await store.close()
  }
}

const devAccountName = 'dev'

/** An API key to try the gateway with. */
interface DevKey {
  readonly apiKey: string
  /** The file that stores it, relative to the working directory. */
  readonly displayPath: string
}

/**
 * The key in the file `dev.key`, if it is still active; else a new key of the account `dev`, written there with mode 600.
 * The file is in the folder of the embedded store; with another store in `data`, next to the configuration in `dir`.
 */
const getOrCreateDevKey = async ({ store: address, plans }: GatewayConfig, dir: string): Promise<DevKey> => {
  const path = join(address.kind === 'lmdb' ? address.path : join(dir, '../data'), 'dev.key')
  const store = await openStore(address, systemClock)
  try {
    const storedKey = readFileIfExists(path)
    const apiKey =
      storedKey !== undefined && (await isActiveKey(store, storedKey)) ? storedKey : await createDevKey(store, Object.keys(plans)[0] ?? '')
    if (apiKey !== storedKey) {
      createFolder(dirname(path))
      writeFileSync(path, `${apiKey}\n`, { mode: 0o600 })
      chmodSync(path, 0o600) // the mode above applies to a new file only
    }
    return { apiKey, displayPath: relative(process.cwd(), path) }
  } finally {
    await store.close()
  }
}

const readFileIfExists = (path: string): string | undefined => {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    return undefined
  }
}

const isActiveKey = async (store: Store, text: string): Promise<boolean> => {
  const holder = isWellFormedKey(text) ? await store.findKey(hashApiKey(text)) : undefined
  return holder !== undefined && keyRefusal(holder.key, systemClock.now()) === undefined
}

const createDevKey = async (store: Store, plan: string): Promise<string> => {
  const created = systemClock.now()
  const account = (await store.account(devAccountName)) ?? { id: generateAccountId(), name: devAccountName, plan, created }
  await store.addAccount(account)
  return (await createKey(store, systemClock, account.id)).key.reveal()
}

/** pino's number of the level `error`. */
const minErrorLevel = 50

/** Writes lines of the log for people: level, message, the other fields, and the stack of an error. The events in `except` are not written. */
const terminalLogDestination = (out: Terminal['out'], style: Style, except: readonly string[]): DestinationStream => ({
  write(line) {
    const parsed: unknown = JSON.parse(line) // written by pino
    if (!isJsonObject(parsed) || except.includes(String(parsed['event']))) return
    const { level, time: _time, pid: _pid, event: _event, msg, err, ...fields } = parsed
    const details = Object.entries(fields).map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
    const stack = isJsonObject(err) ? `\n${String(err['stack'] ?? err['message'])}` : ''
    const heading = Number(level) >= minErrorLevel ? style('error', 'Error:') : style('warning', 'Warning:')
    out(`${heading} ${[String(msg), ...details].join('  ')}${stack}`)
  },
})
