import { setTimeout } from 'node:timers/promises'
import type { Json } from '../../src/plugin/call.ts'
import { createDeployment, networkFile } from '../support/deployment.ts'
import type { Deployment, GatewayProcess } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import type { FakeNode } from '../support/fake-node.ts'
import { ModelChain, responseAt, seededRandom } from '../support/model-chain.ts'
import type { ModelBlock, RandomBelow } from '../support/model-chain.ts'
import { skipWithoutRedis, startRedisServer } from '../support/redis-server.ts'
import { call } from '../support/rpc-client.ts'
import { mustBeZero } from './attack.ts'
import type { Attack } from './attack.ts'
import { HashReplay, LogReplay } from './subscriber-replays.ts'

export interface MovingFiltersOptions {
  readonly seed: number
  /** After each restart the filters must lead to the chain. */
  readonly restarts: number
  log(line: string): void
}

export interface MovingFiltersResult {
  readonly polls: number
  readonly reorgs: number
  readonly changes: number
  /** Filters that ended, though a gateway was left. */
  readonly lostFilters: number
  /** What no filter may return, in words. */
  readonly faults: readonly string[]
}

const stepsPerRestart = 25
const filterCount = 4
/** What filters have delivered is written at once. */
const writeMs = 200
/** On a busy machine. */
const maxSettlingMs = 20_000

/**
 * Polls filters through two gateways at random, each with a process or workers of its own and one Redis for both, while the chain is
 * reorged, and the gateways are stopped, killed and started again.
 */
export const runMovingFilters = async ({ seed, restarts, log }: MovingFiltersOptions): Promise<MovingFiltersResult> => {
  const random = seededRandom(seed)
  const chain = new RememberedChain(random)
  const [redis, node] = [await startRedisServer(), await startChainNode(chain)]
  const networks = { testnet: networkFile('testnet', [node.url]) }
  const deploymentWith = (workers: number) => createDeployment({ gateway: { workers, store: redis.url, log: 'warn' }, networks })
  const deployments = [deploymentWith(1), deploymentWith(2)]
  try {
    const [first] = deployments
    await first?.addAccount('alice', 'custom')
    const { key } = (await first?.addKey('alice')) ?? { key: '' }
    const run = new MovingFiltersRun(await Promise.all(deployments.map(each => each.start())), key, chain, random)
    for (let restart = 0; restart < restarts; restart++) {
      for (let step = 0; step < stepsPerRestart; step++) await run.step()
      await run.check(`restart ${restart}`)
      await run.restart(deployments, restart % deployments.length)
    }
    for (const fault of run.result.faults.slice(0, 10)) log(fault)
    return run.result
  } finally {
    await Promise.all(deployments.map(each => each.remove()))
    await Promise.all([node.stop(), redis.remove()])
  }
}

/** A chain whose nodes know the blocks of branches that were left. */
class RememberedChain {
  readonly #random: RandomBelow
  readonly #chain: ModelChain
  readonly #blocks = new Map<string, ModelBlock>()
  reorgs = 0

  constructor(random: RandomBelow) {
    this.#random = random
    this.#chain = new ModelChain(random)
    for (let i = 0; i < 20; i++) this.#chain.mine()
    this.#recordBlocks()
  }

  get tip(): ModelBlock {
    return this.#chain.tip
  }

  readonly blockOf = (hash: string): ModelBlock | undefined => this.#blocks.get(hash)

  step(): void {
    const isReorg = this.#random(5) === 0
    if (isReorg) this.#chain.reorg()
    else this.#chain.mine()
    this.reorgs += Number(isReorg)
    this.#recordBlocks()
  }

  answer(method: string, params: readonly Json[]): Json {
    const { blockHash = params[0] } = Object(params[0]) as { blockHash?: Json }
    const known = this.#blocks.get(String(blockHash))
    const { tip, final } = known === undefined ? this.#chain : { tip: known, final: known }
    return responseAt(tip, final, method, params) ?? null
  }

  #recordBlocks(): void {
    let block: ModelBlock | undefined = this.tip
    for (; block !== undefined && !this.#blocks.has(block.hash); block = block.parent) this.#blocks.set(block.hash, block)
  }
}

const startChainNode = (chain: RememberedChain): Promise<FakeNode> => {
  const methods = ['eth_blockNumber', 'eth_getBlockByNumber', 'eth_getBlockByHash', 'eth_getLogs']
  const scripts = methods.map(method => [
    method,
    ({ params }: { readonly params: readonly unknown[] }) => ({ result: chain.answer(method, params as readonly Json[]) }), // parsed JSON
  ])
  return startFakeNode(Object.fromEntries(scripts))
}

/** A caller with a filter, whose polls go to any gateway. */
interface FilterCaller {
  readonly replay: LogReplay | HashReplay
  readonly id: string
}

class MovingFiltersRun {
  readonly #gateways: GatewayProcess[]
  readonly #key: string
  readonly #chain: RememberedChain
  readonly #random: RandomBelow
  readonly #faults: string[] = []
  #callers: FilterCaller[] = []
  #polls = 0
  #changes = 0
  #lostFilters = 0

  constructor(gateways: GatewayProcess[], key: string, chain: RememberedChain, random: RandomBelow) {
    this.#gateways = gateways
    this.#key = key
    this.#chain = chain
    this.#random = random
  }

  get result(): MovingFiltersResult {
    return { polls: this.#polls, reorgs: this.#chain.reorgs, changes: this.#changes, lostFilters: this.#lostFilters, faults: this.#faults }
  }

  async step(): Promise<void> {
    while (this.#callers.length < filterCount) this.#callers.push(await this.#create())
    this.#chain.step()
    await setTimeout(this.#random(200))
    // Some at once, through both gateways.
    await Promise.all(this.#callers.filter(() => this.#random(3) === 0).map(caller => this.#poll(caller)))
  }

  /** What the filters have returned must lead to the chain, which rests. */
  async check(when: string): Promise<void> {
    const { tip } = this.#chain
    const deadline = performance.now() + maxSettlingMs
    while (this.#callers.some(({ replay }) => !replay.isAt(tip)) && performance.now() < deadline) {
      for (const caller of this.#callers) await this.#poll(caller)
      await setTimeout(50)
    }
    for (const { replay } of this.#callers) {
      const fault = replay.faultAt(tip)
      const faults = [...replay.faults.splice(0), ...(fault === undefined ? [] : [fault])]
      this.#faults.push(...faults.map(text => `${replay.constructor.name}, by ${when}: ${text}`))
    }
  }

  /** No poll is in flight; a process that is killed has written what it has delivered. */
  async restart(deployments: readonly Deployment[], i: number): Promise<void> {
    const [gateway, deployment] = [this.#gateways[i], deployments[i]]
    if (gateway === undefined || deployment === undefined) return
    if (this.#random(2) === 0) await gateway.stop()
    else {
      await setTimeout(writeMs)
      await gateway.kill()
    }
    this.#chain.step()
    const other = this.#gateways[1 - i]
    for (const caller of this.#callers) await this.#poll(caller, other)
    this.#gateways[i] = await deployment.start()
  }

  async #create(): Promise<FilterCaller> {
    const [method, replay] =
      this.#random(2) === 0
        ? (['eth_newFilter', new LogReplay(hash => this.#chain.blockOf(hash)?.parent?.hash)] as const)
        : (['eth_newBlockFilter', new HashReplay(this.#chain.blockOf)] as const)
    const { result, error } = await this.#call(this.#anyGateway(), method, method === 'eth_newFilter' ? [{}] : [])
    if (error !== undefined) throw new Error(`${method}: ${error.message}`)
    return { replay, id: String(result) }
  }

  async #poll(caller: FilterCaller, gateway = this.#anyGateway()): Promise<void> {
    this.#polls += 1
    const { result, error } = await this.#call(gateway, 'eth_getFilterChanges', [caller.id])
    if (error?.message === 'filter not found') {
      this.#lostFilters += 1
      this.#callers = this.#callers.filter(each => each !== caller)
    }
    if (error !== undefined) return // the upstreams do not answer now
    for (const change of result as readonly never[]) caller.replay.add(change)
    this.#changes += (result as readonly never[]).length
  }

  #call(gateway: GatewayProcess | undefined, method: string, params: readonly unknown[]) {
    return call(gateway?.http(this.#key) ?? '', method, params)
  }

  #anyGateway(): GatewayProcess | undefined {
    return this.#gateways[this.#random(this.#gateways.length)]
  }
}

export const movingFilters: Attack = {
  name: 'filters',
  summary: 'polls filters through two gateways on one Redis, which are stopped and killed in turns, while the chain is reorged',
  async run({ seed, scale, log }) {
    if (skipWithoutRedis !== false) throw new Error(skipWithoutRedis)
    const { polls, reorgs, changes, lostFilters, faults } = await runMovingFilters({ seed, restarts: Math.max(2, Math.round(scale)), log })
    return [
      { name: 'polls', value: polls },
      { name: 'reorgs', value: reorgs },
      { name: 'changes', value: changes },
      mustBeZero('runs with fewer changes than polls', changes < polls ? 1 : 0),
      mustBeZero('filters lost', lostFilters),
      mustBeZero('changes that do not follow, and chains that differ', faults.length),
    ]
  },
}
