import type { FilterTopic } from '../../plugins/subscriptions/filters.ts'
import type { Topic } from '../../plugins/subscriptions/subscription.ts'
import type { ChainUpdate } from '../../src/services/chain-heads/index.ts'
import { openModelHeads } from '../services/chain-heads/model-heads.ts'
import { fakeAccount, fakeKey } from '../support/fakes.ts'
import { seededRandom } from '../support/model-chain.ts'
import type { RandomBelow } from '../support/model-chain.ts'
import { mustBeZero } from './attack.ts'
import type { Attack } from './attack.ts'
import { HashReplay, HeaderReplay, LogReplay } from './subscriber-replays.ts'
import type { HeaderEvent, LogEvent } from './subscriber-replays.ts'
import { DisturbedChain } from './disturbed-chain.ts'
import { Poller, allLogs, topics } from './model-subscribers.ts'
import type { Replay, Subscriber } from './model-subscribers.ts'
import { ModelSocket, SubscriptionCluster } from './subscription-cluster.ts'
import type { ClusterWorker, SubscriptionEvent } from './subscription-cluster.ts'

export interface SubscriptionModelResult {
  /** What no subscriber may see, in words. */
  readonly faults: readonly string[]
  readonly events: number
  readonly lostSockets: number
  readonly killedWorkers: number
  readonly reorgs: number
}

const workerCount = 2
const socketsPerWorker = 3
const stepsPerCheck = 50
/** Steps of 500 ms in which everything must have come, once nothing is disturbed. */
const maxSettlingSteps = 80
const maxPerAccount = 1_000

/**
 * A random chain with reorgs, upstreams that fail, lag and stay on branches that were left, workers that are killed or get no messages for
 * a while, and callers that do not read. What each subscriber was sent, and each filter returned, must follow from what came before; when
 * all is quiet, it must be the chain.
 */
export const runSubscriptionModel = async ({ seed, steps }: { seed: number; steps: number }): Promise<SubscriptionModelResult> => {
  const model = new SubscriptionModel(seed)
  for (let step = 1; step <= steps; step++) {
    await model.step()
    if (step % stepsPerCheck === 0 || step === steps) await model.check(step)
  }
  return model.result
}

class SubscriptionModel {
  readonly #random: RandomBelow
  readonly #model = openModelHeads(['a', 'b', 'c'])
  readonly #cluster = new SubscriptionCluster(this.#model.heads, this.#model.clock)
  readonly #chain: DisturbedChain
  /** By hash: blocks that the feed has removed. */
  readonly #removed = new Set<string>()
  #workers: ClusterWorker[] = []
  #subscribers: Subscriber[] = []
  #pollers: Poller[] = []
  #faults: string[] = []
  #events = 0
  #lostSockets = 0
  #killedWorkers = 0

  constructor(seed: number) {
    this.#random = seededRandom(seed)
    this.#chain = new DisturbedChain(this.#model, this.#random)
    const onUpdate = ({ removed }: ChainUpdate): void => removed.forEach(({ hash }) => this.#removed.add(hash))
    this.#model.heads.feeds.headers.subscribe({ onUpdate, onEnd: () => this.#faults.push('the feed of headers has ended') })
    for (let i = 0; i < workerCount; i++) this.#workers.push(this.#cluster.startWorker())
  }

  get result(): SubscriptionModelResult {
    return {
      faults: this.#faults,
      events: this.#events,
      lostSockets: this.#lostSockets,
      killedWorkers: this.#killedWorkers,
      reorgs: this.#chain.reorgs,
    }
  }

  async step(): Promise<void> {
    this.#chain.step()
    await this.#disturbWorkers()
    for (const { socket } of this.#subscribers) if (this.#random(20) === 0) socket.setReading(this.#random(3) > 0)
    this.#replaceLost()
    await this.#model.advance(500)
    for (const poller of this.#pollers) if (this.#random(4) === 0) void poller.poll(this.#anyWorker(), this.#chain.fetch)
  }

  /** Nothing is disturbed any more: what each subscriber has seen must become the chain. */
  async check(step: number): Promise<void> {
    const { advance } = this.#model
    this.#chain.calm()
    for (const worker of this.#workers) worker.release()
    for (const { socket } of this.#subscribers) socket.setReading(true)
    for (let i = 0; i < maxSettlingSteps && !this.#isSettled(); i++) {
      await advance(500)
      await Promise.all(this.#pollers.map(poller => this.#during(poller.poll(this.#anyWorker(), this.#chain.fetch))))
    }
    for (const { replays } of this.#subscribers.filter(({ socket }) => socket.isOpen)) this.#collectFaults(replays, step)
    for (const { replay, isLost } of this.#pollers) if (!isLost) this.#collectFaults([replay], step)
  }

  /** A request to another worker takes messages, which the settling of the model delivers. */
  async #during(polled: Promise<void>): Promise<void> {
    let isDone = false
    void polled.then(() => (isDone = true))
    for (let i = 0; i < 20 && !isDone; i++) await this.#model.settle()
  }

  #isSettled(): boolean {
    const { tip } = this.#model.chain
    const replays = [
      ...this.#subscribers.filter(({ socket }) => socket.isOpen).flatMap(each => each.replays),
      ...this.#pollers.map(each => each.replay),
    ]
    return replays.every(replay => replay.isAt(tip))
  }

  #collectFaults(replays: readonly Replay[], step: number): void {
    for (const replay of replays) {
      const fault = replay.faultAt(this.#model.chain.tip)
      for (const text of [...replay.faults.splice(0), ...(fault === undefined ? [] : [fault])])
        this.#faults.push(`${replay.constructor.name}, by step ${step}: ${text}`)
      this.#events += replay.eventCount
      replay.eventCount = 0
    }
  }

  async #disturbWorkers(): Promise<void> {
    for (const [i, worker] of this.#workers.entries()) {
      const dice = this.#random(60)
      if (dice === 0) worker.hold()
      else if (dice < 20) worker.release()
      else if (dice === 20) await this.#kill(i, worker)
    }
  }

  /** No answer is lost, and what filters have delivered is stored: the worker ends in order, or is killed later. */
  async #kill(i: number, worker: ClusterWorker): Promise<void> {
    for (const each of this.#workers) each.release()
    while (this.#pollers.some(({ isPolling }) => isPolling)) await this.#model.advance(500)
    if (this.#random(2) === 0) await worker.subscriptions.close()
    else await this.#model.settle()
    worker.kill()
    this.#killedWorkers += 1
    this.#workers[i] = this.#cluster.startWorker()
  }

  /** Callers whose WebSocket or filter is lost begin anew; what they had seen counts all the same. */
  #replaceLost(): void {
    const lost = this.#subscribers.filter(({ socket }) => !socket.isOpen)
    this.#lostSockets += lost.length
    for (const { replays } of lost) for (const replay of replays) this.#collectOpenFaults(replay)
    this.#subscribers = this.#subscribers.filter(({ socket }) => socket.isOpen)
    for (const worker of this.#workers) {
      const count = this.#subscribers.filter(each => each.worker === worker).length
      for (let i = count; i < socketsPerWorker; i++) this.#subscribers.push(this.#subscribe(worker))
    }
    for (const { replay } of this.#pollers.filter(({ isLost }) => isLost)) this.#collectOpenFaults(replay)
    this.#pollers = this.#pollers.filter(({ isLost }) => !isLost)
    if (this.#pollers.length < workerCount * 2) this.#pollers.push(this.#createPoller('logs'), this.#createPoller('newHeads'))
  }

  #collectOpenFaults(replay: Replay): void {
    this.#events += replay.eventCount
    this.#faults.push(...replay.faults.map(fault => `${replay.constructor.name}: ${fault}`))
  }

  #subscribe(worker: ClusterWorker): Subscriber {
    const [headers, logs] = [new HeaderReplay(hash => this.#removed.has(hash)), this.#newLogReplay()]
    const kinds = new Map<string, Topic['kind']>()
    const handle = ({ subscription, result }: SubscriptionEvent): void => {
      if (kinds.get(subscription) === 'logs') logs.add(result as LogEvent)
      else headers.add(result as HeaderEvent)
    }
    const socket = new ModelSocket(handle)
    worker.sockets.add(socket)
    for (const topic of topics) {
      void worker.subscriptions
        .subscribe(topic, { origin: socket.origin, account: fakeAccount, key: fakeKey }, maxPerAccount)
        .then(subscription => {
          if ('error' in subscription) return socket.close()
          kinds.set(subscription.id, topic.kind)
          worker.subscriptions.begin(subscription, true)
        })
    }
    return { worker, socket, replays: [headers, logs] }
  }

  #createPoller(kind: 'logs' | 'newHeads'): Poller {
    const replay = kind === 'logs' ? this.#newLogReplay() : new HashReplay(this.#chain.blockOf)
    const topic: FilterTopic = kind === 'logs' ? { kind, filter: allLogs, request: {} } : { kind }
    return new Poller(replay, this.#anyWorker().subscriptions.filters.create(topic, fakeAccount.id, 1_000, this.#chain.fetch))
  }

  #newLogReplay(): LogReplay {
    return new LogReplay(hash => this.#chain.blockOf(hash)?.parent?.hash)
  }

  #anyWorker(): ClusterWorker {
    return this.#workers[this.#random(this.#workers.length)] as ClusterWorker // there are always two
  }
}

const stepsPerScale = 5_000

export const subscriptionModel: Attack = {
  name: 'subscriptions',
  summary: 'reorgs, upstreams that fail, workers that die and callers that do not read, while sockets and filters follow the chain',
  async run({ seed, scale, log }) {
    const { faults, events, lostSockets, killedWorkers, reorgs } = await runSubscriptionModel({ seed, steps: stepsPerScale * scale })
    for (const fault of faults.slice(0, 10)) log(fault)
    return [
      { name: 'steps', value: stepsPerScale * scale },
      { name: 'reorgs', value: reorgs },
      { name: 'killed workers', value: killedWorkers },
      { name: 'lost WebSockets', value: lostSockets },
      { name: 'events', value: events },
      mustBeZero('runs with fewer events than steps', events < stepsPerScale * scale ? 1 : 0),
      mustBeZero('events that do not follow, and chains that differ', faults.length),
    ]
  },
}
