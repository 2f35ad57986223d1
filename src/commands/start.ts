import cluster from 'node:cluster'
import type { AnyPlugin } from '../plugin.ts'
import { openGateway } from '../gateway.ts'
import type { Gateway, GoodConfig } from '../gateway.ts'
import { systemClock } from '../services/clock.ts'
import { openLog } from '../services/log.ts'
import type { Log } from '../services/log.ts'
import { portVariable } from '../workers/port.ts'
import { exit } from './command.ts'
import type { Command, Terminal } from './command.ts'
import { explainFaults, loadGood, untilSignal } from './serve.ts'
import { readConfigDir } from './verbs.ts'

/** Production: serves a configuration directory; stdout is one JSON object a line. */
export const createStart = (plugins: readonly AnyPlugin[]): Command => ({
  name: 'start',
  summary: 'Serves the networks of a configuration directory.',
  usage: ['start [--config DIR]'],
  async run(args, terminal) {
    const dir = readConfigDir(args)
    const config = await loadGood(dir, plugins, terminal)
    if (config === undefined) return exit.config
    const log = openLog(config.gateway.log)
    if (cluster.isWorker) return work(config, log, terminal)
    return untilSignal(asked => serve(config, { dir, log, asked }, terminal))
  },
})

interface Run {
  readonly dir: string
  readonly log: Log
  /** Resolves when it shall stop. */
  readonly asked: Promise<void>
}

const serve = async (config: GoodConfig, { dir, log, asked }: Run, { err }: Terminal): Promise<number> => {
  for (const { network, variables } of config.unserved) {
    log.warn({ event: 'unserved', network, variables }, `network ${network} is not served: set ${variables.join(' or ')}`)
  }
  const opening = config.gateway.workers > 1 ? openSeveral(config, dir, log) : openGateway(config, systemClock, log)
  const gateway = await explainFaults(opening, err)
  if (gateway === undefined) return exit.failed
  announce(config, gateway.urls)
  await asked
  await gateway.stop()
  log.info({ event: 'stopped' }, 'stopped')
  return exit.ok
}

/** Loaded only where there are workers, as the worker's side below. */
const openSeveral = async (config: GoodConfig, dir: string, log: Log): Promise<Pick<Gateway, 'urls' | 'stop'>> =>
  (await import('../workers/primary.ts')).openPrimary(config, dir, log)

/** Said at any level of the log: whoever started the gateway waits for this line. */
const announce = ({ networks }: GoodConfig, urls: { readonly rpc: string }): void => {
  const served = networks.map(({ name, hosts }) => ({ network: name, hosts }))
  openLog('info').info({ event: 'listening', ...urls, networks: served }, `listening on ${urls.rpc}`)
}

/** One of several workers: admin is the primary's. */
const work = async ({ gateway: own, ...config }: GoodConfig, log: Log, { env, err }: Terminal): Promise<number> => {
  const rpc = { ...own.listen.rpc, port: Number(env[portVariable]) }
  const crew = (await import('../workers/worker.ts')).joinCrew(systemClock)
  const opening = openGateway({ ...config, gateway: { ...own, listen: { rpc } } }, systemClock, log, crew.heads)
  const gateway = await explainFaults(opening, err)
  if (gateway === undefined) return exit.failed
  await crew.serve(gateway.metrics)
  await gateway.stop()
  return exit.ok
}
