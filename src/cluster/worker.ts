import cluster from 'node:cluster'
import type { Worker } from 'node:cluster'
import type { ReadConfig } from '../core/reloader.ts'
import type { HeadsOptions, HeadsSource } from '../services/chain-heads/index.ts'
import type { Clock } from '../services/clock.ts'
import type { Gateway } from '../core/gateway.ts'
import type { RootLog } from '../services/log.ts'
import type { RateLimits } from '../services/rate-limits.ts'
import { withTimeoutOr } from '../util/async.ts'
import { Channel } from './channel.ts'
import { endListening } from './listening-end.ts'
import { handleAccessLogRequest } from './shared-logs.ts'
import { WorkerRateLimits } from './shared-rate-limits.ts'
import { WorkerReload } from './shared-reload.ts'
import { WorkerHeads } from './worker-heads.ts'
import type { WorkerHeadsOptions } from './worker-heads.ts'
import { rpcPortVariable } from './worker-messages.ts'
import type { NetworkMessage, PrimaryMessage, WorkerMessage } from './worker-messages.ts'

/** A worker's side of its channel to the primary. */
export interface PrimaryConnection {
  /** The port on which the gateway accepts calls. */
  readonly rpcPort: number
  /** Heads that the primary tracks. */
  readonly heads: HeadsSource
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
export interface WorkerGateway extends Pick<Gateway, 'metrics' | 'nodeStatuses' | 'accessLog' | 'prepareReload'> {
  /** Of the configuration that it has been opened with. */
  readonly configId: string
  readonly readConfig: ReadConfig
}

/** Handles messages from the start on. Signals are ignored: a terminal sends them to all processes, and the primary stops workers. */
export const connectToPrimary = (clock: Clock, log: RootLog, env: NodeJS.ProcessEnv): PrimaryConnection => {
  const channel = new Channel<WorkerMessage>(sendToPrimary)
  const send = (message: WorkerMessage): void => channel.send(message)
  const networks = new WorkerNetworks(clock, send)
  const rateLimits = new WorkerRateLimits(clock, send)
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
    rateLimits,
    endListening: () => endListening(clock, send),
    serveUntilStopped: gateway =>
      new Promise(resolve => {
        process.off('disconnect', killOwnProcess).once('disconnect', () => resolve(0))
        process.on('message', handlerOf(gateway, { log, send, stop: resolve }))
        send({ kind: 'ready', configId: gateway.configId })
      }),
  }
}

interface HandlerOptions {
  readonly log: RootLog
  send(message: WorkerMessage): void
  /** The worker is to serve on for `graceMs`. */
  stop(graceMs: number): void
}

/** Handles the messages that concern the gateway of this worker as a whole. */
const handlerOf = (gateway: WorkerGateway, { log, send, stop }: HandlerOptions): ((message: PrimaryMessage) => void) => {
  const reload = new WorkerReload(gateway, gateway.readConfig, { log, send })
  return message => {
    switch (message.kind) {
      case 'stop':
        return stop(message.graceMs)
      case 'metrics':
        return send({ kind: 'metrics', id: message.id, metrics: gateway.metrics.families() })
      case 'nodes':
        return send({ kind: 'nodes', id: message.id, nodes: gateway.nodeStatuses.read() })
      case 'accessLog':
      case 'reopenAccessLog':
        return void handleAccessLogRequest(message, gateway.accessLog, log).then(send)
      case 'prepareReload':
        return void reload.prepare(message)
      case 'endReload':
        return reload.end(message)
    }
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

/** Longer than the primary asks nodes that do not answer. Without news of them from the primary a worker still starts: until it comes, no node gets calls. */
const chainCheckTimeoutMs = 5000

/** The heads of every network of this worker, and its way to the other workers. */
export class WorkerNetworks implements HeadsSource {
  readonly #clock: Clock
  readonly #send: (message: WorkerMessage) => void
  /**
   * A reload to another chain ID, block time or kind of node opens the heads of a network anew. The primary knows the newest; when these close
   * first, because the reload was abandoned, those before count again.
   */
  readonly #heads = new Map<string, readonly WorkerHeads[]>()

  constructor(clock: Clock, send: (message: WorkerMessage) => void) {
    this.#clock = clock
    this.#send = send
  }

  open(network: string, { chainId, blockTime, devNode = false, upstreamClient }: HeadsOptions): OpenedHeads {
    const send = (message: WorkerMessage) => {
      if (this.#newest(network) === heads) this.#send(message)
    }
    const options = { network, chainId, blockTime, devNode, upstreamClient, clock: this.#clock, send }
    const heads: OpenedHeads = new OpenedHeads(options, () => this.#remove(network, heads))
    this.#heads.set(network, [...(this.#heads.get(network) ?? []), heads])
    return heads
  }

  /** At the latest after `chainCheckTimeoutMs`. */
  async ready(): Promise<void> {
    const checked = Promise.all(Array.from(this.#heads.keys(), network => this.#newest(network)?.whenChainChecked()))
    await withTimeoutOr(this.#clock, chainCheckTimeoutMs, checked, () => undefined)
  }

  /** The primary polls. */
  async refresh(): Promise<void> {}

  handleMessage(message: NetworkMessage): void {
    this.#newest(message.network)?.handleMessage(message)
  }

  #newest(network: string): WorkerHeads | undefined {
    return this.#heads.get(network)?.at(-1)
  }

  #remove(network: string, heads: WorkerHeads): void {
    const wasNewest = this.#newest(network) === heads
    const rest = (this.#heads.get(network) ?? []).filter(each => each !== heads)
    if (rest.length === 0) this.#heads.delete(network)
    else this.#heads.set(network, rest)
    if (wasNewest) rest.at(-1)?.resume()
  }
}

class OpenedHeads extends WorkerHeads {
  /** Called when no pipeline has these heads any more. */
  readonly close: () => void

  constructor(options: WorkerHeadsOptions, close: () => void) {
    super(options)
    this.close = close
  }
}
