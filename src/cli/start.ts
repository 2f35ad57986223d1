import cluster from 'node:cluster'
import { resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { openFileWatch } from '../config/config-files.ts'
import type { FileTexts, FileWatch } from '../config/config-files.ts'
import { parseAcceptedGatewayConfig } from '../config/gateway-config.ts'
import { loadAcceptedConfig } from '../config/load.ts'
import { printProblems, sortProblems } from '../config/problem.ts'
import type { Problem } from '../config/problem.ts'
import type { LoadablePlugin } from '../plugin/deferred-plugin.ts'
import { openGateway } from '../core/gateway.ts'
import { configId, reloadGatewayConfig } from '../core/config-changes.ts'
import type { Gateway } from '../core/gateway.ts'
import type { ReadConfig, ValidConfig } from '../core/reloader.ts'
import { systemClock } from '../services/clock.ts'
import { saveCompiledCode } from '../runtime/compile-cache.ts'
import { collectGarbageOfStart, holdYoungGeneration } from '../runtime/gc-hints.ts'
import { openLog } from '../services/log.ts'
import type { RootLog } from '../services/log.ts'
import { commandSummaries, exitCodes } from './command.ts'
import type { Command, Terminal } from './command.ts'
import { loadValidConfig, logConfigNotices, printStartupErrors, createConfigReader, surviveBackgroundBugs } from './gateway-process.ts'
import { runUntilSignal } from './stop-signals.ts'
import type { StopSignal } from './stop-signals.ts'
import { configOption, readConfigDir } from './args.ts'

/** Serves a configuration directory in production; standard output is one JSON object a line. */
export const createStartCommand = (plugins: readonly LoadablePlugin[]): Command => ({
  name: 'start',
  summary: commandSummaries.start,
  usage: ['start [--config DIR]'],
  positionals: {},
  options: { config: configOption },
  examples: {
    'start --config /etc/tollgate': 'serves that folder',
    'start > tollgate.log': 'serves ./configs, and keeps the log lines in a file',
  },
  async run(args, terminal) {
    const dir = readConfigDir(args)
    if (cluster.isWorker) return runWorker(dir, plugins, terminal)
    const gatewayServes = handleSignalsOfOperators()
    const watchedFiles = openFileWatch(dir, systemClock)
    const config = await loadValidConfig(dir, plugins, terminal)
    if (config === undefined) return exitCodes.config
    holdYoungGeneration() // again: V8 sets the factor to 2 for each thread, and plugins that are not built in are first loaded in one
    const log = openLog(config.gateway.log)
    const addPlugins = surviveBackgroundBugs(log)
    addPlugins(config)
    const fileWatch = config.gateway.watch ? watchedFiles : undefined
    const readConfig = createConfigReader(dir, plugins, { env: terminal.env, fileWatch, addPlugins })
    return runUntilSignal(['SIGTERM', 'SIGINT'], stopRequested =>
      serveUntilStopped(config, { dir, log, readConfig, fileWatch, gatewayServes, stopRequested }, terminal),
    )
  },
})

interface StartOptions {
  readonly dir: string
  readonly log: RootLog
  readonly readConfig: ReadConfig
  readonly fileWatch: FileWatch | undefined
  gatewayServes(gateway: ServingGateway): void
  /** Resolves at the first SIGTERM or SIGINT. */
  readonly stopRequested: Promise<StopSignal>
}

const serveUntilStopped = async (config: ValidConfig, options: StartOptions, { err }: Terminal): Promise<number> => {
  const { log, readConfig, fileWatch, gatewayServes, stopRequested } = options
  logConfigNotices(config, log)
  const { workers } = config.gateway
  const opening = workers > 1 ? openPrimaryProcess(config, options) : openGateway(config, systemClock, log, { readConfig })
  let isStopping = false
  void stopRequested.then(() => {
    isStopping = true
  })
  const gateway = await printStartupErrors(opening, message => {
    if (!isStopping) err(message)
  })
  if (gateway === undefined) return isStopping ? exitCodes.ok : exitCodes.failed
  gatewayServes(gateway)
  fileWatch?.start(() => void gateway.reloader?.reload())
  collectGarbageOfStart()
  logListening(config, gateway.urls)
  setImmediate(saveCompiledCode) // a gateway may run for months, and be killed then
  const signal = await stopRequested
  log.info({ event: 'stopping', signal }, `${signal} received: stopping`)
  fileWatch?.stop()
  // Who presses Ctrl-C has no load balancer that must notice first.
  await gateway.stop(signal === 'SIGTERM' ? undefined : 0)
  log.info({ event: 'stopped' }, 'stopped')
  return exitCodes.ok
}

/** The kernel may deliver a signal to another thread of this process, which runs later than the one that sees the exit of a worker. */
const maxSignalDelayMs = 100

/** A signal to all processes, as that of Ctrl-C, also ends the workers that are still starting: their exit may be seen before it. */
const untilSignalsAreSeen = <T>(opening: Promise<T>, stopRequested: Promise<StopSignal>): Promise<T> =>
  opening.catch(async error => {
    // Timers of the clock let the process end.
    await Promise.race([stopRequested, delay(maxSignalDelayMs)])
    throw error
  })

/**
 * SIGHUP reloads, SIGUSR2 opens the access log anew. Neither ends a gateway that is starting: what has been asked for until then is done once it
 * serves, as the files may have been read, or the log been opened, before.
 */
const handleSignalsOfOperators = (): StartOptions['gatewayServes'] => {
  let gatewayServes: StartOptions['gatewayServes'] = () => undefined
  const serving = new Promise<ServingGateway>(resolve => {
    gatewayServes = resolve
  })
  const reopenLog = async (): Promise<void> => (await serving).accessLog.reopen()
  process.on('SIGHUP', () => void serving.then(({ reloader }) => reloader?.reload()))
  process.on('SIGUSR2', () => void reopenLog().catch(() => undefined)) // the process that cannot has logged it
  return gatewayServes
}

type ServingGateway = Pick<Gateway, 'urls' | 'accessLog' | 'stop' | 'reloader'>

/** Loaded only where there are workers, as the worker's side in runWorker(). */
const openPrimaryProcess = async (config: ValidConfig, options: StartOptions): Promise<ServingGateway> =>
  untilSignalsAreSeen((await import('../cluster/primary.ts')).openPrimary(config, options), options.stopRequested)

/** Logged at any log level: whoever started the gateway waits for this line. */
const logListening = ({ networks }: ValidConfig, urls: { readonly rpc: string }): void => {
  const served = networks.map(({ name, hosts }) => ({ network: name, hosts }))
  openLog('info').info({ event: 'listening', ...urls, networks: served }, `listening on ${urls.rpc}`)
}

/**
 * One of several workers: the admin listener and the portal are the primary's. It has the files as the primary has accepted them; what needs a
 * restart is as the gateway was started with.
 */
const runWorker = async (dir: string, plugins: readonly LoadablePlugin[], terminal: Terminal): Promise<number> => {
  const { env, err } = terminal
  const worker = (await import('../cluster/worker.ts')).connectToPrimary(systemClock, env)
  const { startedWith, texts, tlsTexts } = await worker.configuration()
  const started = parseAcceptedGatewayConfig(startedWith, resolve(dir), env)
  const log = openLog(started.log)
  const addPlugins = surviveBackgroundBugs(log)
  const readTexts = async (texts: FileTexts): Promise<ValidConfig | readonly Problem[]> => {
    const config = await loadAcceptedConfig(dir, texts, plugins, env)
    if (config.problems.length > 0) return config.problems
    addPlugins(config)
    return { ...config, gateway: reloadGatewayConfig(started, config.gateway) }
  }
  const config = await readTexts(texts)
  if (!('networks' in config)) {
    printProblems(config, terminal)
    await worker.reportStartFailure(sortProblems(config).map(formatPlace).join('; '))
    return exitCodes.config
  }
  log.level = config.gateway.log
  const { admin: _admin, portal: _portal, rpc, ...listenOptions } = config.gateway.listen
  const listen = { ...listenOptions, rpc: { ...rpc, port: worker.rpcPort } }
  const opening = openGateway({ ...config, gateway: { ...config.gateway, listen } }, systemClock, log, {
    headsSource: worker.heads,
    rateLimits: worker.rateLimits,
    recallCredits: worker.recallCredits,
    tlsTexts,
  })
  let reason = ''
  const gateway = await printStartupErrors(opening, message => {
    reason = message
    err(message)
  })
  if (gateway === undefined) {
    await worker.reportStartFailure(reason)
    return exitCodes.failed
  }
  collectGarbageOfStart()
  setImmediate(saveCompiledCode)
  await worker.serveUntilStopped({ ...gateway, log, readTexts, configId: configId(config) })
  await gateway.stop(0)
  return exitCodes.ok
}

const formatPlace = ({ file, line, column, message }: Problem): string => `${file}:${line}:${column}: ${message}`
