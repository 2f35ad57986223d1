import cluster from 'node:cluster'
import type { Worker } from 'node:cluster'
import type { HeadsSource } from '../services/chain-heads/index.ts'
import type { Clock } from '../services/clock.ts'
import type { Gateway } from '../core/gateway.ts'
import type { RootLog } from '../services/log.ts'
import type { RateLimits } from '../services/rate-limits.ts'
import { readProcessTraffic } from '../services/traffic/process-traffic.ts'
import { Channel, isReply, transmitTo } from '../util/channel.ts'
import type { Handlers } from '../util/channel.ts'
import { changeAccessLog, problemOf } from './shared-logs.ts'
import { openWorkerRateLimits } from './shared-rate-limits.ts'
import { WorkerReload } from './shared-reload.ts'
import type { ReadTexts } from './shared-reload.ts'
import { recallTimeoutMs, rpcPortVariable, toPrimaryRules } from './worker-messages.ts'
import type { StartConfiguration, ToPrimary, ToWorker } from './worker-messages.ts'
import { WorkerNetworks } from './worker-networks.ts'
import type { NetworkHandlers } from './worker-networks.ts'

/** A worker's side of its channel to the primary. */
interface PrimaryConnection {
  /** The port on which the gateway accepts calls. */
  readonly rpcPort: number
  /** Rejects when the primary does not answer. */
  configuration(): Promise<StartConfiguration>
  /** This worker ends before it is ready. Resolves once the primary knows why. */
  reportStartFailure(reason: string): Promise<void>
  /** Heads that the primary tracks. */
  readonly heads: HeadsSource
  /** Buckets whose tokens the primary has. */
  readonly rateLimits: RateLimits
  /** Resolves once the other workers have returned what they hold of the account and do not use, or after a time. */
  recallCredits(account: string): Promise<void>
  /**
   * Reports that this worker is ready, answers requests for its metrics, takes part in reloads, and resolves when the worker is to stop: the primary
   * has sent `stop`, or has exited.
   */
  serveUntilStopped(gateway: WorkerGateway): Promise<void>
}

/** The gateway of this worker. */
interface WorkerGateway
  extends Pick<Gateway, 'metrics' | 'nodeStatuses' | 'pluginProblems' | 'accessLog' | 'prepareReload' | 'enterLameDuck' | 'returnCredits'> {
  /** Of the configuration that it has been opened with. */
  readonly configId: string
  readonly log: RootLog
  readonly readTexts: ReadTexts
}

/** Signals are ignored: a terminal sends them to all processes, and the primary stops workers. */
export const connectToPrimary = (clock: Clock, env: NodeJS.ProcessEnv): PrimaryConnection => {
  const channel = new Channel<ToPrimary, ToWorker>({ clock, rules: toPrimaryRules, transmit: transmitTo(process) })
  const networks = new WorkerNetworks(clock, channel)
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR2']) process.on(signal, ignoreSignal)
  outlivePrimary(cluster.worker)
  process.once('disconnect', killOwnProcess)
  process.once('disconnect', () => channel.close())
  channel.handle(networks.handlers)
  process.on('message', channel.receive.bind(channel))
  return {
    rpcPort: Number(env[rpcPortVariable]),
    async configuration() {
      const configuration = await channel.call('configuration', undefined, configurationTimeoutMs)
      if (!isReply(configuration)) throw new Error('the primary does not say which configuration the gateway has')
      return configuration
    },
    async reportStartFailure(reason) {
      await channel.call('startFailed', { reason }, startFailureTimeoutMs)
    },
    heads: networks,
    rateLimits: openWorkerRateLimits(clock, channel),
    async recallCredits(account) {
      await channel.call('recallCredits', { account }, recallTimeoutMs)
    },
    serveUntilStopped: gateway =>
      new Promise(resolve => {
        process.off('disconnect', killOwnProcess).once('disconnect', resolve)
        channel.handle(handlersOf(gateway, resolve))
        channel.send('ready', { configId: gateway.configId })
      }),
  }
}

/** A primary that has started workers is busy with them. */
const configurationTimeoutMs = 10_000
/** Who starts workers has nothing else to do, or has other workers that serve. */
const startFailureTimeoutMs = 1_000

/** Of what concerns the gateway of this worker as a whole. */
const handlersOf = (gateway: WorkerGateway, stop: () => void): Omit<Handlers<ToWorker>, keyof NetworkHandlers> => {
  const { accessLog, log } = gateway
  const reload = new WorkerReload(gateway, gateway.readTexts, log)
  return {
    lameDuck: ({ graceMs }) => void gateway.enterLameDuck(graceMs),
    stop,
    logLevel: ({ level }) => void (log.level = level),
    returnCredits: ({ account }, reply) => void gateway.returnCredits(account).then(reply),
    metrics: (_, reply) => reply(gateway.metrics.families()),
    nodes: (_, reply) => reply(gateway.nodeStatuses.read()),
    problems: (_, reply) => reply(gateway.pluginProblems.read()),
    traffic: (_, reply) => reply(readProcessTraffic(gateway.metrics)),
    accessLog: (settings, reply) => void problemOf(() => changeAccessLog(accessLog, settings, log)).then(reply),
    reopenAccessLog: (_, reply) => void problemOf(() => accessLog.reopen()).then(reply),
    prepareReload: (request, reply) => void reload.prepare(request).then(reply),
    endReload: end => reload.end(end),
  }
}

/** A worker ends in order when its primary has died. */
const outlivePrimary = (self: Worker | undefined): void => {
  if (self === undefined) return
  // Otherwise Node calls process.exit() at once: calls in flight and leases would be lost, and the exit would wait for ever for
  // a commit of LMDB, which holds the lock of the store and waits for this thread.
  self.exitedAfterDisconnect = true
  // Node's acknowledgment of a connection that the primary handed over before it died. `disconnect` follows.
  self.on('error', () => undefined)
}

/** A worker that is starting has no calls and no leases, and would wait for ever for the primary to open its listener. */
const killOwnProcess = (): void => void process.kill(process.pid, 'SIGKILL')

const ignoreSignal = (): void => undefined
