import type { Json, Target } from '../../src/plugin/call.ts'
import { refuse } from '../../src/plugin/reply.ts'
import { Secret } from '../../src/plugin/secret.ts'
import type { Sender } from '../../src/util/channel.ts'
import type { ToPrimary } from '../../src/cluster/worker-messages.ts'
import { SharedHeads } from '../../src/cluster/shared-heads.ts'
import { WorkerNetworks } from '../../src/cluster/worker-networks.ts'
import type { WorkerHeads } from '../../src/cluster/worker-heads.ts'
import { createMetricsRegistry } from '../../src/services/metrics.ts'
import type { HeadsOptions } from '../../src/services/chain-heads/index.ts'
import type { UpstreamClient } from '../../src/services/upstream-client/index.ts'
import { TestClock, TestLog, fakeResult } from '../support/fakes.ts'
import { shippedMethods } from '../services/method-table/shipped-table.ts'
import { connectWorker } from '../support/worker-channel.ts'
import { ModelChain, ModelNode, seededRandom } from '../support/model-chain.ts'

export const targetsOf = (...names: readonly string[]): readonly Target[] =>
  names.map(name => ({ name, url: new Secret(`http://${name}.test/canary`), source: 'node' }))

/** Messages in one direction, in order. Two fill the pipe. */
class TestPipe {
  readonly #waiting: (() => void)[] = []
  readonly #blockedSends: (() => void)[] = []
  /** Nothing is delivered. */
  isPaused = false

  readonly send = (deliver: () => void, onSent: () => void): void => {
    this.#waiting.push(deliver)
    if (this.#waiting.length <= 2) onSent()
    else this.#blockedSends.push(onSent)
  }

  deliver(): boolean {
    const deliver = this.isPaused ? undefined : this.#waiting.shift()
    if (deliver === undefined) return false
    this.#blockedSends.shift()?.()
    deliver()
    return true
  }

  /** Messages in the pipe. */
  get length(): number {
    return this.#waiting.length
  }
}

export interface TestWorker {
  readonly heads: WorkerHeads
  readonly primary: Sender<ToPrimary>
  readonly up: TestPipe
  readonly down: TestPipe
  /** It no longer serves the network. */
  readonly untrack: () => void
  /** The process exits. */
  kill(): void
}

/**
 * A primary and its workers, whose pipes deliver when the test says so, and nodes of one chain. The block time is 1 s, the
 * poll interval 500 ms.
 */
export const openCluster = (seed = 7, names: readonly string[] = ['a', 'b'], devNode = false) => {
  const chain = new ModelChain(seededRandom(seed))
  for (let i = 0; i < 100; i++) chain.mine()
  while (chain.final.number < 60) chain.finalize()
  const clock = new TestClock()
  const log = new TestLog()
  const metrics = createMetricsRegistry()
  const nodes = names.map(name => new ModelNode(name, chain))
  const nodeOf = (name: string) => nodes.find(node => node.name === name) as ModelNode
  const requests: string[] = []
  const responseOverrides = new Map<string, (method: string, params: readonly Json[]) => Json | undefined>()
  const upstreamClient: UpstreamClient = {
    disconnects: () => 0,
    async request({ name }, { method, params }) {
      requests.push(`${name} ${method} ${params[0] ?? ''}`)
      const respond = responseOverrides.get(name) ?? ((m: string, p: readonly Json[]) => nodeOf(name).answer(m, p))
      const value = respond(method, params)
      return value === undefined ? refuse('unavailable', { upstream: name, cause: 'ECONNREFUSED' }) : fakeResult(value)
    },
  }
  /** The networks of the configuration. */
  const served = new Set(['model'])
  const sharedHeads = new SharedHeads({
    upstreamClient,
    clock,
    log,
    metrics,
    heightBroadcastsOf: () => [],
    isServed: network => served.has(network),
    errorCategoryOf: () => shippedMethods.errorCategory,
  })
  const workers: TestWorker[] = []
  const addWorker = (targets = targetsOf(...names), drained?: NonNullable<HeadsOptions['nodes']>): TestWorker => {
    const [up, down] = [new TestPipe(), new TestPipe()]
    const { worker: channel, primary } = connectWorker(clock, { up: up.send, down: down.send })
    const networks = new WorkerNetworks(clock, primary)
    channel.handle(sharedHeads.handlersOf(channel))
    primary.handle(networks.handlers)
    const heads = networks.open('model', {
      ...{ chainId: 1, blockTime: 1000, devNode, upstreamClient, clock, log, metrics },
      errorCategory: shippedMethods.errorCategory,
      ...(drained && { nodes: drained }),
    })
    const untrack = heads.track(targets)
    const worker = {
      heads,
      primary,
      untrack,
      up,
      down,
      kill() {
        up.isPaused = down.isPaused = true
        channel.close()
        sharedHeads.removeWorker(channel)
      },
    }
    workers.push(worker)
    return worker
  }
  const pipes = () => workers.flatMap(({ up, down }) => [up, down])
  const deliverAll = async () => {
    for (;;) {
      await new Promise(setImmediate)
      if (pipes().filter(pipe => pipe.deliver()).length === 0) return
    }
  }
  const advance = async (ms: number) => {
    for (let left = ms; left > 0; left -= 500) {
      clock.advance(Math.min(500, left))
      await deliverAll()
    }
  }
  const takePollCount = () => requests.splice(0).filter(request => request.endsWith('eth_getBlockByNumber latest')).length
  return {
    chain,
    clock,
    log,
    metrics,
    nodes,
    nodeOf,
    responseOverrides,
    served,
    sharedHeads,
    upstreamClient,
    workers,
    addWorker,
    pipes,
    deliverAll,
    advance,
    /** Polls of the newest block since the last call of this function. */
    takePollCount,
  }
}
