import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'

/** A configuration directory with a store of its own, and what an operator does with it. */
export interface Deployment {
  /** Holds gateway.yaml and networks/; the store lies beside it. */
  readonly dir: string
  /** Writes a network file; text is written as it is, an object as JSON, which is YAML too. */
  writeNetwork(name: string, content: object | string): void
  /** Runs `tollgate <args> --config <dir>` to its end. */
  run(...args: readonly string[]): Promise<CommandResult>
  addAccount(name: string, plan?: string): Promise<void>
  /** For all networks unless some are named. */
  addKey(account: string, ...networks: readonly string[]): Promise<NewKey>
  /** `tollgate start` as a process of its own; several may share one deployment. Rejects when it does not listen. */
  start(): Promise<GatewayProcess>
  /** Kills what still runs, and deletes everything. */
  remove(): Promise<void>
}

export interface CommandResult {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface NewKey {
  readonly id: string
  readonly key: string
}

/** A running gateway. */
export interface GatewayProcess {
  readonly pid: number
  /** What callers post to. */
  http(key: string): string
  /** What callers connect to. */
  ws(key: string): string
  /** Base URLs of the listeners, as the line `listening` told them. */
  readonly rpc: string
  readonly admin: string
  /** The lines of stdout, parsed. */
  readonly log: readonly LogLine[]
  /** The first line of stdout, old or new, with this `event`. */
  waitForEvent(name: string): Promise<LogLine>
  stderr(): string
  /** SIGTERM; resolves with the exit code once the process has ended. */
  stop(): Promise<number | null>
  /** SIGKILL. */
  kill(): Promise<void>
}

export type LogLine = Readonly<Record<string, unknown>>

export interface DeploymentOptions {
  /** Members of gateway.yaml in place of those below. */
  readonly gateway?: object
  /** Network files by name. */
  readonly networks: Readonly<Record<string, object | string>>
  readonly env?: Readonly<Record<string, string>>
  /** Options of Node.js for gateways that are started. */
  readonly nodeOptions?: readonly string[]
}

/** Writes a configuration on free ports into a new directory. Nothing runs yet. */
export const createDeployment = ({ gateway, networks, env = {}, nodeOptions: node = [] }: DeploymentOptions): Deployment => {
  const home = mkdtempSync(join(tmpdir(), 'tollgate-'))
  const dir = join(home, 'configs')
  const running = new Set<ChildProcess>()
  // A test file that crashes takes its gateways with it.
  const killAll = () => running.forEach(child => child.kill('SIGKILL'))
  process.once('exit', killAll)
  mkdirSync(join(dir, 'networks'), { recursive: true })
  cpSync(join(rootDir, 'configs/methods'), join(dir, 'methods'), { recursive: true })
  writeFileSync(join(dir, 'gateway.yaml'), JSON.stringify({ ...defaultGatewayConfig, ...gateway }))

  const spawnCommand = (args: readonly string[], options: readonly string[] = []): CommandProcess => {
    // tap loads itself into every Node.js process that a test starts (150 ms, and handlers for signals), but for this.
    const child = spawn('env', ['-u', 'NODE_OPTIONS', process.execPath, ...options, mainPath, ...args, '--config', dir], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...env },
    })
    running.add(child)
    child.once('close', () => running.delete(child))
    return child
  }
  const run = async (...args: readonly string[]): Promise<CommandResult> => {
    const child = spawnCommand(args)
    const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
    return { code, stdout, stderr }
  }
  const runJson = async (...args: readonly string[]): Promise<unknown> => {
    const { code, stdout, stderr } = await run(...args, '--json')
    if (code !== 0) throw new Error(`tollgate ${args.join(' ')} ended with ${code}: ${stderr}`)
    return JSON.parse(stdout)
  }
  const writeNetwork = (name: string, content: object | string): void => {
    const yaml = typeof content === 'string' ? content : JSON.stringify(content)
    writeFileSync(join(dir, 'networks', `${name}.yaml`), yaml)
  }

  for (const [name, content] of Object.entries(networks)) writeNetwork(name, content)
  return {
    dir,
    writeNetwork,
    run,
    addAccount: async (name, plan = 'core') => void (await runJson('accounts', 'add', name, '--plan', plan)),
    // The shape is promised by the command line (docs/reference/commands.md).
    addKey: async (account, ...names) =>
      (await runJson('keys', 'add', account, ...(names.length > 0 ? ['--networks', names.join(',')] : []))) as NewKey,
    start: () => whenListening(spawnCommand(['start'], node)),
    async remove() {
      await Promise.all([...running].map(killProcess))
      process.off('exit', killAll)
      rmSync(home, { recursive: true, force: true })
    },
  }
}

/**
 * A network file with the pipeline that networks ship with, served at 127.0.0.1. `options` adds to the options of its
 * plugins by name; `false` leaves a plugin out.
 */
export const networkFile = (
  name: string,
  urls: readonly string[],
  options: Readonly<Record<string, object | false>> = {},
): Readonly<Record<string, unknown>> => {
  const shipped = {
    envelope: {},
    'key-auth': {},
    'network-access': {},
    credits: {},
    params: {},
    cache: {},
    failover: { upstreams: urls.map((url, index) => ({ name: `node-${index + 1}`, url })) },
    upstream: {},
  }
  const pipeline = Object.entries(shipped)
    .filter(([plugin]) => options[plugin] !== false)
    .map(([plugin, own]) => ({ [plugin]: { ...own, ...options[plugin] } }))
  return { network: name, chainId: 31337, blockTime: '100ms', methods: 'ethereum', hosts: ['127.0.0.1'], pipeline }
}

type CommandProcess = ChildProcess & { readonly stdout: NodeJS.ReadableStream; readonly stderr: NodeJS.ReadableStream }

const rootDir = fileURLToPath(new URL('../../..', import.meta.url))

const mainPath = fileURLToPath(new URL('../../src/main.js', import.meta.url))

const defaultGatewayConfig = {
  listen: { rpc: '127.0.0.1:0', admin: '127.0.0.1:0' },
  store: 'lmdb:../data',
  memory: '64MiB',
  plans: {
    core: { dailyCredits: 3_000_000 },
    growth: { dailyCredits: 200_000_000, forwarding: true },
    custom: { dailyCredits: 1_000_000_000, forwarding: true },
  },
}

const whenListening = async (child: CommandProcess): Promise<GatewayProcess> => {
  const log: LogLine[] = []
  const errors: string[] = []
  createInterface(child.stdout).on('line', line => {
    log.push(JSON.parse(line))
    child.emit('line')
  })
  createInterface(child.stderr).on('line', line => errors.push(line))
  const ended = once(child, 'close') as Promise<[number | null]>

  const event = async (name: string): Promise<LogLine> => {
    const find = () => log.find(line => line.event === name)
    while (find() === undefined && child.exitCode === null && child.signalCode === null) {
      await Promise.race([once(child, 'line'), ended])
    }
    const line = find()
    if (line !== undefined) return line
    throw new Error(`the gateway ended without "${name}": ${errors.join('\n') || JSON.stringify(log)}`)
  }
  const { rpc, admin } = (await event('listening')) as { rpc: string; admin: string }
  return {
    pid: child.pid ?? 0,
    rpc,
    admin,
    log,
    waitForEvent: event,
    http: key => `${rpc}/v3/${key}`,
    ws: key => `${rpc.replace('http', 'ws')}/ws/v3/${key}`,
    stderr: () => errors.join('\n'),
    async stop() {
      child.kill('SIGTERM')
      const [code] = await ended
      return code
    },
    kill: () => killProcess(child),
  }
}

const killProcess = async (child: ChildProcess): Promise<void> => {
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill('SIGKILL')
  await once(child, 'close')
}
