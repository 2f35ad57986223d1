import cluster from 'node:cluster'
import type { Worker } from 'node:cluster'
import { configId } from '../core/config-changes.ts'
import { problemsOf } from '../core/reloader.ts'
import type { ReadConfig, PreparedReload, Reloadable, ReloadProblem } from '../core/reloader.ts'
import type { HeadsSource } from '../services/chain-heads/index.ts'
import type { Clock } from '../services/clock.ts'
import type { Gateway } from '../core/gateway.ts'
import type { AccessLogControl } from '../services/access-log.ts'
import type { RootLog } from '../services/log.ts'
import type { RateLimits } from '../services/rate-limits.ts'
import type { Peers } from '../services/peers.ts'
import { withTimeoutOr } from '../util/async.ts'
import { Channel } from './channel.ts'
import { rpcPortVariable } from './worker-messages.ts'
import type { PrimaryMessage, WorkerMessage, WorkerSetting } from './worker-messages.ts'
import { WorkerNetworks } from './worker-networks.ts'
import { WorkerRateLimits } from './shared-rate-limits.ts'

/** A worker's side of its channel to the primary. */
export interface PrimaryConnection {
  /** The port on which the gateway accepts calls. */
  readonly rpcPort: number
  /** Heads that the primary tracks. */
  readonly heads: HeadsSource
  /** The other workers that serve a network. */
  peersOf(network: string): Peers
  /** Buckets whose tokens the primary has. */
  readonly rateLimits: RateLimits
  /** Resolves when the primary has handed over the last connection, or does not answer. */
  endListening(): Promise<void>
  /**
   * Reports that this worker is ready, answers requests for its metrics, takes part in reloads, and resolves when the worker is to stop: the primary
   * has sent `stop`, or has exited. Resolves with the ms for which the worker is to serve on.
   */
  serveUntilStopped(gateway: WorkerGateway): Promise<number>
}

/** The gateway of this worker. */
export interface WorkerGateway extends Pick<Gateway, 'metrics' | 'accessLog' | 'prepareReload'> {
  /** Of the configuration that it has been opened with. */
  readonly configId: string
  readonly readConfig: ReadConfig
}

/** Handles messages from the start on. Signals are ignored: a terminal sends them to all processes, and the primary stops workers. */
export const connectToPrimary = (clock: Clock, log: RootLog, env: NodeJS.ProcessEnv): PrimaryConnection => {
  const channel = new Channel<WorkerMessage>(sendToPrimary)
  const networks = new WorkerNetworks(clock, message => channel.send(message))
  const rateLimits = new WorkerRateLimits(clock, message => channel.send(message))
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR2']) process.on(signal, ignoreSignal)
  outlivePrimary(cluster.worker)
  process.once('disconnect', killOwnProcess)
  process.on('message', (message: PrimaryMessage) => {
    if ('network' in message) networks.handleMessage(message)
    else if (message.kind === 'logLevel') log.level = message.level
    else if (message.kind === 'tokens') rateLimits.handleMessage(message)
  })
  return {
    rpcPort: Number(env[rpcPortVariable]),
    heads: networks,
    peersOf: networks.peersOf,
    rateLimits,
    endListening: () => endListening(clock, () => channel.send({ kind: 'endListening' })),
    serveUntilStopped: gateway =>
      new Promise(resolve => {
        const { metrics, accessLog, configId, readConfig } = gateway
        const reload = new WorkerReload(gateway, readConfig, message => channel.send(message))
        process.off('disconnect', killOwnProcess).once('disconnect', () => resolve(0))
        process.on('message', (message: PrimaryMessage) => {
          if (message.kind === 'stop') resolve(message.graceMs)
          else if (message.kind === 'metrics') channel.send({ kind: 'metrics', id: message.id, metrics: metrics.families() })
          else if (message.kind === 'accessLog') void setAccessLog(accessLog, message, log).then(reply => channel.send(reply))
          else if (message.kind === 'reopenAccessLog')
            void answerOf(message.id, async () => accessLog.reopen()).then(reply => channel.send(reply))
          else if (message.kind === 'prepareReload') void reload.prepare(message)
          else if (message.kind === 'endReload') reload.end(message)
        })
        channel.send({ kind: 'ready', configId })
      }),
  }
}

/** The primary answers sooner, even if it has to wait for another worker. */
const endListeningTimeoutMs = 2_000

const endListening = async (clock: Clock, request: () => void): Promise<void> => {
  let end = (): void => undefined
  const ended = new Promise<void>(resolve => (end = resolve))
  const handleMessage = ({ kind }: PrimaryMessage): void => (kind === 'listeningEnded' ? end() : undefined)
  process.on('message', handleMessage).once('disconnect', end)
  request()
  if (process.connected) await withTimeoutOr(clock, endListeningTimeoutMs, ended, () => undefined)
  process.off('message', handleMessage).off('disconnect', end)
}

const setAccessLog = (
  accessLog: AccessLogControl,
  { id, settings }: Extract<WorkerSetting, { readonly kind: 'accessLog' }>,
  log: RootLog,
): Promise<WorkerMessage> =>
  answerOf(id, async () => {
    try {
      await accessLog.change(settings)
    } catch (error) {
      log.error({ event: 'access-log-failed', err: error }, 'access log cannot be opened')
      throw error
    }
  })

const answerOf = async (id: number, change: () => Promise<void>): Promise<WorkerMessage> => {
  try {
    await change()
    return { kind: 'accessLogSet', id }
  } catch (error) {
    return { kind: 'accessLogSet', id, problem: error instanceof Error ? error.message : String(error) }
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

const sendToPrimary = (message: WorkerMessage, onSent: () => void): void => {
  // With a callback, a failure to send is no event that would end this process.
  if (process.connected) process.send?.(message, undefined, undefined, onSent)
  else onSent()
}

type Prepare = Extract<PrimaryMessage, { readonly kind: 'prepareReload' }>
type End = Extract<PrimaryMessage, { readonly kind: 'endReload' }>

/** A worker's part in a reload: it prepares when the primary asks it to, and commits when all workers have prepared. */
export class WorkerReload {
  readonly #gateway: Reloadable
  readonly #readConfig: ReadConfig
  readonly #send: (message: WorkerMessage) => void
  #prepared: { readonly id: number; readonly reload: PreparedReload } | undefined
  #lastEndedId = 0
  #latest = Promise.resolve()

  constructor(gateway: Reloadable, readConfig: ReadConfig, send: (message: WorkerMessage) => void) {
    this.#gateway = gateway
    this.#readConfig = readConfig
    this.#send = send
  }

  /** One after the other: of two at once, one would run on although nobody ends it. */
  prepare(request: Prepare): Promise<void> {
    return (this.#latest = this.#latest.then(() => this.#answer(request)))
  }

  async #answer({ id, configId: expectedId }: Prepare): Promise<void> {
    await this.#abandon()
    const problems = await this.#prepare(id, expectedId)
    // Meanwhile the primary may have given up.
    if (this.#lastEndedId >= id) await this.#abandon()
    this.#send({ kind: 'reloadPrepared', id, problems })
  }

  end({ id, isCommitted }: End): void {
    this.#lastEndedId = Math.max(this.#lastEndedId, id)
    if (this.#prepared?.id !== id) return
    if (!isCommitted) return void this.#abandon()
    this.#prepared.reload.commit()
    this.#prepared = undefined
  }

  async #prepare(id: number, expectedId: string): Promise<readonly ReloadProblem[]> {
    try {
      const config = await this.#readConfig('reload')
      if (!('networks' in config)) return config
      if (configId(config) !== expectedId) return [{ message: 'the files changed while the workers read them' }]
      this.#prepared = { id, reload: await this.#gateway.prepareReload(config) }
      return []
    } catch (error) {
      return problemsOf(error)
    }
  }

  async #abandon(): Promise<void> {
    const prepared = this.#prepared
    this.#prepared = undefined
    await prepared?.reload.abandon()
  }
}
