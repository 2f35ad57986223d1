import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { runCommand } from '../../src/cli/command.ts'
import type { Terminal } from '../../src/cli/command.ts'
import { commandLoaders } from '../../src/cli/commands.ts'
import { bounded } from './bounded.ts'
import { post } from './rpc-client.ts'
import type { HttpResponse } from './rpc-client.ts'

/** A configuration directory with a store of its own, and the actions of an operator. */
export interface Deployment {
  /** Holds gateway.yaml and networks/; the store is next to it. */
  readonly dir: string
  /** Writes gateway.yaml; members that are not given have the defaults of a deployment. */
  writeGateway(content: object): void
  /** Writes a network file: text as it is, an object as JSON, which is valid YAML. */
  writeNetwork(name: string, content: object | string): void
  removeNetwork(name: string): void
  /** Runs `tollgate <args> --config <dir>` to its end; most commands in this process, without the 0.5 s of CPU of a start. */
  run(name: string, ...args: readonly string[]): Promise<CommandResult>
  /** Runs the program, whatever the command. */
  runProgram(...args: readonly string[]): Promise<CommandResult>
  addAccount(name: string, plan?: string): Promise<void>
  /** Adds an account, and a key of it for all networks. */
  addCaller(name: string, plan?: string): Promise<NewKey>
  /** For all networks unless some are named. */
  addKey(account: string, ...networks: readonly string[]): Promise<NewKey>
  /** Runs `tollgate start`; several processes may share a deployment. Rejects when the process does not listen. */
  start(options?: StartOptions): Promise<GatewayProcess>
  /** Kills all processes, and deletes all files. */
  remove(): Promise<void>
}

export interface StartOptions {
  /** Put before the command of the gateway. */
  readonly command?: readonly string[]
  /** In place of variables of the deployment. */
  readonly env?: Readonly<Record<string, string>>
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
  /** URL for HTTP calls. */
  http(key: string): string
  /** URL for WebSockets. */
  ws(key: string): string
  /** GET on the admin listener. */
  get(path: string): Promise<HttpResponse>
  /** The sum of the samples of a metric that have these labels; NaN where there is none. */
  metric(name: string, labels?: Readonly<Record<string, string>>): Promise<number>
  /** Base URLs of the listeners, from the log line `listening`. */
  readonly rpc: string
  readonly admin: string
  /** Undefined without `listen.portal`. */
  readonly portal: string | undefined
  /** The lines of stdout, parsed. */
  readonly log: readonly LogLine[]
  /** The first line of stdout with this `event`, already printed or not. */
  waitForEvent(name: string): Promise<LogLine>
  stderr(): string
  /** SIGTERM; resolves with the exit code once the process has ended. */
  stop(): Promise<number | null>
  /** SIGKILL. */
  kill(): Promise<void>
}

export type LogLine = Readonly<Record<string, unknown>>

export interface DeploymentOptions {
  /** Members of gateway.yaml that replace the defaults. */
  readonly gateway?: object
  /** Network files by name. */
  readonly networks: Readonly<Record<string, object | string>>
  /** Other files, by their paths beside gateway.yaml. */
  readonly files?: Readonly<Record<string, string>>
  readonly env?: Readonly<Record<string, string>>
  /** What `ulimit -n` says for `start`. */
  readonly maxOpenFiles?: number
  /** Options of Node.js for `start`. */
  readonly nodeOptions?: readonly string[]
  /** The program, in place of `mainPath`. */
  readonly program?: string
}

/** Writes a configuration with free ports into a new directory. Starts nothing. */
export const createDeployment = ({
  gateway,
  networks,
  files = {},
  env = {},
  maxOpenFiles,
  nodeOptions = [],
  program = mainPath,
}: DeploymentOptions): Deployment => {
  const home = mkdtempSync(join(tmpdir(), 'tollgate-'))
  const dir = join(home, 'configs')
  const running = new Set<ChildProcess>()
  // A test file that crashes must not leave processes behind.
  const killAll = () => running.forEach(child => child.kill('SIGKILL'))
  process.once('exit', killAll)
  mkdirSync(join(dir, 'networks'), { recursive: true })
  // Another build may not read the method table of this one.
  const builtIn = program === mainPath ? rootDir : join(dirname(program), '../..')
  cpSync(join(builtIn, 'configs/methods'), join(dir, 'methods'), { recursive: true })
  const writeGateway = (content: object): void =>
    writeFileSync(join(dir, 'gateway.yaml'), JSON.stringify({ ...defaultGatewayConfig, ...content }))
  writeGateway(gateway ?? {})

  const spawnCommand = (args: readonly string[], options: readonly string[] = [], start: SpawnOptions = {}): CommandProcess => {
    const { command: prefix = [], env: ownEnv = {}, maxOpenFiles } = start
    // `env -u`: tap would load itself into the process (150 ms, and handlers for signals).
    const command = [...prefix, 'env', '-u', 'NODE_OPTIONS', process.execPath, ...options, program, ...args, '--config', dir]
    const limit = maxOpenFiles === undefined ? '' : `ulimit -n ${maxOpenFiles} && `
    const child = spawn('sh', ['-c', `${limit}exec "$@"`, 'sh', ...command], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...env, ...ownEnv },
    })
    running.add(child)
    child.once('close', () => running.delete(child))
    return child
  }
  const runProgram = async (...args: readonly string[]): Promise<CommandResult> => {
    const child = spawnCommand(args)
    const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
    return { code, stdout, stderr }
  }
  const run = (name: string, ...args: readonly string[]): Promise<CommandResult> =>
    bounded(
      `tollgate ${[name, ...args].join(' ')}`,
      isInProcessCommand(name) ? runInProcess(name, [...args, '--config', dir], { ...process.env, ...env }) : runProgram(name, ...args),
    )
  const runJson = async (name: InProcessCommand, ...args: readonly string[]): Promise<unknown> => {
    const { code, stdout, stderr } = await run(name, ...args, '--json')
    if (code !== 0) throw new Error(`tollgate ${[name, ...args].join(' ')} exited with ${code}: ${stderr}`)
    return JSON.parse(stdout)
  }
  const writeNetwork = (name: string, content: object | string): void => {
    const yaml = typeof content === 'string' ? content : JSON.stringify(content)
    writeFileSync(join(dir, 'networks', `${name}.yaml`), yaml)
  }

  const addAccount = async (name: string, plan = 'core') => void (await runJson('accounts', 'add', name, '--plan', plan))
  // The shape is promised by the command line (docs/reference/commands.md).
  const addKey = async (account: string, ...names: readonly string[]) =>
    (await runJson('keys', 'add', account, ...(names.length > 0 ? ['--networks', names.join(',')] : []))) as NewKey

  for (const [name, content] of Object.entries(networks)) writeNetwork(name, content)
  for (const [path, content] of Object.entries(files)) writeFileSync(join(dir, path), content)
  return {
    dir,
    writeGateway,
    writeNetwork,
    removeNetwork: name => rmSync(join(dir, 'networks', `${name}.yaml`)),
    run,
    runProgram,
    addAccount,
    addKey,
    async addCaller(name, plan) {
      await addAccount(name, plan)
      return addKey(name)
    },
    start: options =>
      whenListening(spawnCommand(['start'], nodeOptions, { ...options, ...(maxOpenFiles !== undefined && { maxOpenFiles }) })),
    async remove() {
      await Promise.all([...running].map(killProcess))
      process.off('exit', killAll)
      rmSync(home, { recursive: true, force: true })
    },
  }
}

interface SpawnOptions extends StartOptions {
  readonly maxOpenFiles?: number
}

interface RunningDeployment extends NewKey {
  readonly deployment: Deployment
  readonly gateway: GatewayProcess
  /** For HTTP calls with the key. */
  readonly url: string
}

/** A gateway that runs until the test ends, with an account `alice` and a key of it. */
export const startGateway = async (
  t: Pick<Test, 'teardown'>,
  { plan, ...options }: DeploymentOptions & { readonly plan?: string },
): Promise<RunningDeployment> => {
  const deployment = createDeployment(options)
  t.teardown(deployment.remove)
  const caller = await deployment.addCaller('alice', plan)
  const gateway = await deployment.start()
  return { deployment, gateway, ...caller, url: gateway.http(caller.key) }
}

/**
 * A network file with the shipped pipeline, for the host 127.0.0.1. `options` adds options to plugins by name; `false`
 * omits a plugin.
 */
export const networkFile = (
  name: string,
  urls: readonly string[],
  options: Readonly<Record<string, object | false>> = {},
): Readonly<Record<string, unknown>> => {
  const pluginOptions = {
    envelope: {},
    'key-auth': {},
    'network-access': {},
    ...(options['rate-limit'] && { 'rate-limit': {} }),
    credits: {},
    params: {},
    subscriptions: {},
    cache: {},
    failover: { upstreams: urls.map((url, index) => ({ name: `node-${index + 1}`, url })) },
    ...(options['verify'] && { verify: {} }),
    upstream: {},
  }
  const pipeline = Object.entries(pluginOptions)
    .filter(([plugin]) => options[plugin] !== false)
    .map(([plugin, defaults]) => ({ [plugin]: { ...defaults, ...options[plugin] } }))
  return { network: name, chainId: 31337, blockTime: '100ms', devNode: false, methods: 'ethereum', hosts: ['127.0.0.1'], pipeline }
}

const inProcessCommands = ['accounts', 'audit', 'changes', 'keys', 'nodes', 'people', 'show', 'usage'] as const
type InProcessCommand = (typeof inProcessCommands)[number]

const isInProcessCommand = (name: string): name is InProcessCommand => inProcessCommands.some(each => each === name)

const runInProcess = async (name: InProcessCommand, args: readonly string[], env: Terminal['env']): Promise<CommandResult> => {
  const [out, err]: [string[], string[]] = [[], []]
  const terminal: Terminal = { out: line => void out.push(`${line}\n`), err: line => void err.push(`${line}\n`), env }
  const code = await runCommand(await commandLoaders[name](), args, terminal)
  return { code, stdout: out.join(''), stderr: err.join('') }
}

type CommandProcess = ChildProcess & { readonly stdout: NodeJS.ReadableStream; readonly stderr: NodeJS.ReadableStream }

const rootDir = fileURLToPath(new URL('../../..', import.meta.url))

/**
 * The program: the bundle of this build, which starts in half the time of its modules, or another, as .ci/pack has the package installed and
 * run-mutants.ts breaks modules.
 */
export const mainPath = process.env['TOLLGATE_MAIN'] ?? fileURLToPath(new URL('../../bundle/main.js', import.meta.url))

const defaultGatewayConfig = {
  listen: { rpc: '127.0.0.1:0', admin: '127.0.0.1:0' },
  store: 'lmdb:../data',
  memory: '64MiB',
  drain: { grace: '0s' },
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
  const exited = once(child, 'close') as Promise<[number | null]>

  const waitForEvent = (name: string): Promise<LogLine> => bounded(`the event ${name} in the log of the gateway`, findEvent(name))
  const findEvent = async (name: string): Promise<LogLine> => {
    const find = () => log.find(line => line.event === name)
    while (find() === undefined && child.exitCode === null && child.signalCode === null) {
      await Promise.race([once(child, 'line'), exited])
    }
    const line = find()
    if (line !== undefined) return line
    throw new Error(`the gateway exited before "${name}": ${errors.join('\n') || JSON.stringify(log)}`)
  }
  const { rpc, admin, portal } = (await waitForEvent('listening')) as { rpc: string; admin: string; portal?: string }
  const get = (path: string) => post(`${admin}${path}`, '', { method: 'GET' })
  return {
    pid: child.pid ?? 0,
    rpc,
    admin,
    portal,
    log,
    waitForEvent,
    http: key => `${rpc}/v3/${key}`,
    ws: key => `${rpc.replace('http', 'ws')}/ws/v3/${key}`,
    get,
    metric: async (name, labels = {}) => sumOfSamples((await get('/metrics')).text, name, labels),
    stderr: () => errors.join('\n'),
    async stop() {
      child.kill('SIGTERM')
      const [code] = await exited
      return code
    },
    kill: () => killProcess(child),
  }
}

const sumOfSamples = (metrics: string, name: string, labels: Readonly<Record<string, string>>): number => {
  const pairs = Object.entries(labels).map(([label, value]) => `${label}="${value}"`)
  const values = metrics.split('\n').flatMap(line => {
    const [, sample, labelText = '', value] = /^(\w+)(?:\{(.*?)\})? (\S+)/.exec(line) ?? []
    return sample === name && pairs.every(pair => labelText.split(',').includes(pair)) ? [Number(value)] : []
  })
  return values.length === 0 ? NaN : values.reduce((sum, value) => sum + value)
}

/** The workers die too: one that survived would keep the standard output open, and `close` would not come. */
const killProcess = async (child: ChildProcess): Promise<void> => {
  if (child.exitCode !== null || child.signalCode !== null) return
  const workers = childrenOf(child.pid!)
  child.kill('SIGKILL')
  for (const pid of workers) killIfAlive(pid)
  await once(child, 'close')
}

const killIfAlive = (pid: number): void => {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has exited.
  }
}

/** The ids of the processes that a process has started (Linux). */
export const childrenOf = (pid: number): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
    .split(' ')
    .filter(text => text !== '')
    .map(Number)

/** A process that has exited, but that its new parent has not waited for yet, is none (Linux). */
export const isRunning = (pid: number): boolean => {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false
  }
}
