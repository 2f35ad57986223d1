import cluster from 'node:cluster'
import type { AnyPlugin } from '../plugin/plugin.ts'
import { openGateway } from '../core/gateway.ts'
import type { Gateway, ValidConfig } from '../core/gateway.ts'
import { systemClock } from '../services/clock.ts'
import { openLog } from '../services/log.ts'
import type { RootLog } from '../services/log.ts'
import { exitCodes } from './command.ts'
import type { Command, Terminal } from './command.ts'
import { printStartupErrors, loadValidConfig, runUntilSignal, surviveBackgroundBugs } from './startup.ts'
import type { StopSignal } from './startup.ts'
import { configOption, readConfigDir } from './args.ts'

/** Serves a configuration directory in production; standard output is one JSON object a line. */
export const createStartCommand = (plugins: readonly AnyPlugin[]): Command => ({
  name: 'start',
  summary: 'Serves the networks of a configuration directory.',
  usage: ['start [--config DIR]'],
  positionals: {},
  options: { config: configOption },
  async run(args, terminal) {
    const dir = readConfigDir(args)
    const config = await loadValidConfig(dir, plugins, terminal)
    if (config === undefined) return exitCodes.config
    const log = openLog(config.gateway.log)
    surviveBackgroundBugs(config, log)
    if (cluster.isWorker) return runWorker(config, log, terminal)
    process.on('SIGHUP', () => log.info({ event: 'hangup' }, 'SIGHUP ignored: restart the gateway to apply a changed configuration'))
    return runUntilSignal(['SIGTERM', 'SIGINT'], stopRequested => serveUntilStopped(config, { dir, log, stopRequested }, terminal))
  },
})

interface StartOptions {
  readonly dir: string
  readonly log: RootLog
  /** Resolves at the first SIGTERM or SIGINT. */
  readonly stopRequested: Promise<StopSignal>
}

const serveUntilStopped = async (config: ValidConfig, { dir, log, stopRequested }: StartOptions, { err }: Terminal): Promise<number> => {
  for (const { network, variables } of config.unserved) {
    log.warn({ event: 'unserved', network, variables }, `network ${network} is not served: set ${variables.join(' or ')}`)
  }
  for (const { file, line, column, message } of config.warnings) log.warn({ event: 'config-warning', file, line, column }, message)
  const opening = config.gateway.workers > 1 ? openPrimaryProcess(config, dir, log) : openGateway(config, systemClock, log)
  const gateway = await printStartupErrors(opening, err)
  if (gateway === undefined) return exitCodes.failed
  logListening(config, gateway.urls)
  // Who presses Ctrl-C has no load balancer that must notice first.
  await gateway.stop((await stopRequested) === 'SIGTERM' ? undefined : 0)
  log.info({ event: 'stopped' }, 'stopped')
  return exitCodes.ok
}

/** Loaded only where there are workers, as the worker's side in runWorker(). */
const openPrimaryProcess = async (config: ValidConfig, dir: string, log: RootLog): Promise<Pick<Gateway, 'urls' | 'stop'>> =>
  (await import('../cluster/primary.ts')).openPrimary(config, dir, log)

/** Logged at any log level: whoever started the gateway waits for this line. */
const logListening = ({ networks }: ValidConfig, urls: { readonly rpc: string }): void => {
  const served = networks.map(({ name, hosts }) => ({ network: name, hosts }))
  openLog('info').info({ event: 'listening', ...urls, networks: served }, `listening on ${urls.rpc}`)
}

/** One of several workers: the admin listener is the primary's. */
const runWorker = async ({ gateway: gatewayConfig, ...config }: ValidConfig, log: RootLog, { env, err }: Terminal): Promise<number> => {
  const worker = (await import('../cluster/worker.ts')).connectToPrimary(systemClock, log, env)
  const { rpc, reusePort, trustedProxies } = gatewayConfig.listen
  const listen = { rpc: { ...rpc, port: worker.rpcPort }, reusePort, trustedProxies }
  const opening = openGateway({ ...config, gateway: { ...gatewayConfig, listen } }, systemClock, log, worker.heads)
  const gateway = await printStartupErrors(opening, err)
  if (gateway === undefined) return exitCodes.failed
  await gateway.stop(await worker.serveUntilStopped(gateway.metrics))
  return exitCodes.ok
}
