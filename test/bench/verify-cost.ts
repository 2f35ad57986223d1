import verify from '../../plugins/verify/index.ts'
import { withCallMetrics } from '../../src/core/call-metrics.ts'
import { composeHandlers } from '../../src/core/pipeline.ts'
import type { PipelineStage } from '../../src/core/pipeline.ts'
import { varyBelow } from '../../src/core/shared-calls.ts'
import type { Json, Target } from '../../src/plugin/call.ts'
import { directStage } from '../../src/plugin/direct-stage.ts'
import type { DirectNext } from '../../src/plugin/direct-stage.ts'
import { withContext } from '../../src/plugin/call.ts'
import { toBuffer } from '../../src/json/chunked-bytes.ts'
import { isFailure } from '../../src/plugin/reply.ts'
import type { Reply } from '../../src/plugin/reply.ts'
import { openLog } from '../../src/services/log.ts'
import { createMetricsRegistry } from '../../src/services/metrics.ts'
import { harness } from '../../src/testing/index.ts'
import { InFlight } from '../../src/util/async.ts'
import { answerAt, createBlock, account } from '../plugins/verify/model-blocks.ts'
import type { ModelBlock } from '../plugins/verify/model-blocks.ts'
import { shippedMethods } from '../services/method-table/shipped-table.ts'
import { TestClock, createPlainStage, createStage, fakeCall, fakeResult, fakeTarget } from '../support/fakes.ts'

// What the plugin `verify` costs: CPU time of a call, and requests to nodes when many indexers poll. Run by `node dist/test/bench/verify-cost.js`.

const createRandom = (state: number) => () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647

/** As a block of Ethereum: 300 transactions at most, 150 on average, with 450 logs. */
const random = createRandom(7)
const contracts = Array.from({ length: 3_000 }, (_, i) => `0x${(i + 1).toString(16).padStart(40, 'c')}`)
const size = { maxTransactions: 300, maxLogs: 6, contracts }
const extend = (tip: ModelBlock | undefined, count: number): ModelBlock =>
  count === 0 ? tip! : extend(createBlock(tip, random, size), count - 1)

/** That of Ethereum: all rules hold from the first answer on. */
const chainId = 1

const nodeNames = ['one', 'two', 'three']
const targets = nodeNames.map(name => ({ ...fakeTarget, name }))
const costs = { proof: '1x', quorum: '1x' }

/** The plugin over nodes that answer at once; what they answer is made once. */
const openPlugin = (methods: Readonly<Record<string, string>>, tip: ModelBlock) => {
  const replies = new Map<string, Reply>()
  const replyTo = (method: string, params: readonly Json[], upstream: string): Reply => {
    const key = JSON.stringify([method, ...params])
    const reply = replies.get(key) ?? fakeResult(answerAt(tip, { method, params }) ?? null, { upstream })
    replies.set(key, reply)
    return reply
  }
  const heads = {
    snapshot: { head: tip.number, reportedHeight: tip.number, headVersion: 0, finalizedBlockOf: () => undefined },
    hasBlock: () => true,
    reporterOf: ({ name }: { readonly name: string }) => name,
    reportHeight: (_: string, height: number) => height,
    exclusionOf: () => undefined,
    headOf: () => undefined,
    feeds: { headers: { subscribe: () => ({ isStarted: Promise.resolve(true), close: () => undefined }) } },
  }
  const options = { methods, maxBytes: 1 << 24, maxProofBytes: 1 << 28, maxBlocks: 32, costs, readmit: true }
  const request = async ({ name }: { readonly name: string }, asked: { readonly method: string; readonly params: readonly Json[] }) =>
    replyTo(asked.method, asked.params, name)
  const stage = createStage(verify, options, {
    methods: shippedMethods,
    upstreamClient: { request, disconnects: () => 0 },
    heads: heads as never, // what the plugin uses of it
    network: { name: 'devnet', chainId, blockTime: 12_000, devNode: false },
  })
  const ask = (target: Target, method: string, params: readonly Json[]): Promise<Reply> => {
    const call = fakeCall(method, params, { target, upstreams: targets })
    return stage.handle(call, async below => replyTo(below.context.request.method, below.context.request.params, below.context.target.name))
  }
  return (method: string, ...params: readonly Json[]) => ask(targets[0]!, method, params)
}

const microseconds = async (rounds: number, work: () => Promise<unknown>): Promise<number> => {
  for (let i = 0; i < Math.min(rounds, 20); i++) await work()
  const start = process.cpuUsage()
  for (let i = 0; i < rounds; i++) await work()
  const { user, system } = process.cpuUsage(start)
  return (user + system) / rounds
}

const assertOk = (reply: Reply): number => {
  if (isFailure(reply)) throw new Error(`refused: ${reply.cause ?? reply.error.message}`)
  return toBuffer(reply.result).length
}

const measureCalls = async (): Promise<void> => {
  const tip = extend(undefined, 12)
  const number = `0x${tip.number.toString(16)}`
  const transaction = String(tip.transactions[0]!['hash'])
  const logs = { fromBlock: `0x${(tip.number - 9).toString(16)}`, toBlock: number, address: contracts[0]! }
  const questions: readonly (readonly [what: string, rounds: number, method: string, ...params: Json[]])[] = [
    ['eth_getBalance', 2_000, 'eth_getBalance', account, number],
    ['eth_getLogs over 10 blocks', 200, 'eth_getLogs', logs],
    ['eth_getTransactionReceipt', 500, 'eth_getTransactionReceipt', transaction],
    [`eth_getBlockReceipts of ${tip.receipts.length}`, 20, 'eth_getBlockReceipts', number],
    [`eth_getBlockByNumber of ${tip.transactions.length}`, 20, 'eth_getBlockByNumber', number, true],
  ]
  console.log('CPU time of a call in the plugin, in us (warm: what is kept by block is there)\n')
  console.log('call                                   off      check      proof, warm      proof, cold')
  for (const [what, rounds, method, ...params] of questions) {
    const [off, check, warm] = [openPlugin({ '*': 'off' }, tip), openPlugin({}, tip), openPlugin({ '*': 'proof' }, tip)]
    for (const call of [off, check, warm]) assertOk(await call(method, ...params))
    const figures = [
      await microseconds(20_000, () => off(method, ...params)),
      await microseconds(rounds, () => check(method, ...params)),
      await microseconds(rounds, () => warm(method, ...params)),
      // Another plugin each time: nothing is kept yet.
      await microseconds(10, () => openPlugin({ '*': 'proof' }, tip)(method, ...params)),
    ]
    console.log(`${what.padEnd(34)} ${figures.map(figure => figure.toFixed(figure < 10 ? 2 : 0).padStart(8)).join('   ')}`)
  }
}

/**
 * What the plugin adds to calls of which it verifies nothing, in us of CPU time. Loops in turns, over pipelines as they are composed: without the plugin, with one
 * step of it, and with many. Above them one plugin shares answers by what those below vary by, and one varies, as `cache` and `failover` do: so the key in the
 * cache is in it, and with the first step what the answer says of its verification. Beside it a plugin of an author that only calls next().
 */
const measureOff = async (): Promise<void> => {
  const reply = fakeResult('0x1')
  const call = fakeCall('eth_call', [{}, 'latest'], { target: targets[0]!, upstreams: targets })
  const options = { methods: { '*': 'off' }, maxBytes: 1 << 20, maxProofBytes: 1 << 20, maxBlocks: 32, costs, readmit: true }
  const step = (name: string, plugin: object, stage: object): PipelineStage => ({
    step: { name, plugin, options } as PipelineStage['step'], // what is read of it
    stage: stage as PipelineStage['stage'], // the call has the whole context
  })
  const log = openLog('silent')
  const failover = step(
    'failover',
    { vary: () => 'forwarding' },
    directStage({ handle: async (given, next) => await next(withContext(given, { target: targets[0]!, upstreams: targets })) }),
  )
  const bottom = step('upstream', {}, directStage({ handle: async () => reply }))
  const compose = (...between: readonly PipelineStage[]): DirectNext => {
    const below = [failover, ...between, bottom]
    const vary = varyBelow(below.map(each => each.step))
    const cache = directStage({ handle: (given, next) => next({ ...given, variant: vary(given) }) })
    const stages = [step('cache', { shares: true, writes: [] }, cache), ...below]
    return withCallMetrics(
      composeHandlers(stages, log, (_, handle) => handle),
      {
        ...{ network: 'devnet', methods: new Map([['eth_call', undefined]]), inFlight: new InFlight(), clock: new TestClock() },
        ...{ metrics: createMetricsRegistry(), verifies: between.some(({ step: { plugin } }) => plugin.verifies === true) },
      },
    )
  }
  const times = (count: number, toStep: (name: string) => PipelineStage) => Array.from({ length: count }, (_, i) => toStep(`step-${i}`))
  const offStep = (name: string) => step(name, verify, createPlainStage(verify, options, { methods: shippedMethods }))
  const nextStep = (name: string) => step(name, {}, { handle: (given: never, next: (same: never) => unknown) => next(given) })
  const pipelines = {
    without: compose(),
    off: compose(offStep('verify')),
    manyOff: compose(...times(offSteps, offStep)),
    manyNext: compose(...times(offSteps, nextStep)),
  }
  const names = Object.keys(pipelines) as (keyof typeof pipelines)[] // its own
  const loop = async (run: DirectNext, rounds: number): Promise<number> => {
    const start = process.cpuUsage()
    for (let i = 0; i < rounds; i++) await run(call)
    const { user, system } = process.cpuUsage(start)
    return (user + system) / rounds
  }
  for (const name of names) await loop(pipelines[name], 10 * offRounds)
  const added = { off: [] as number[], manyOff: [] as number[], manyNext: [] as number[] }
  for (let turn = 0; turn < offTurns; turn++) {
    const figures = { without: 0, off: 0, manyOff: 0, manyNext: 0 }
    // Each is first as often as last.
    for (const name of turn % 2 === 0 ? names : names.toReversed()) figures[name] = await loop(pipelines[name], offRounds)
    added.off.push(figures.off - figures.without)
    added.manyOff.push((figures.manyOff - figures.without) / offSteps)
    added.manyNext.push((figures.manyNext - figures.without) / offSteps)
  }
  console.log(
    `\nus that a step with the policy off adds to a call (Node ${process.version}; ${offTurns} turns of ${offRounds} calls; aim: 0.2)`,
  )
  console.log(`  the first step of a pipeline    ${describeSpread(added.off)}`)
  console.log(`  each of ${offSteps} steps                ${describeSpread(added.manyOff)}`)
  console.log(`  each of ${offSteps} that call next()     ${describeSpread(added.manyNext)}`)
}

/** The median, the interval that has it with 95 %, and the quartiles. */
const describeSpread = (values: readonly number[]): string => {
  const sorted = values.toSorted((a, b) => a - b)
  const at = (position: number): string => sorted[Math.min(sorted.length - 1, Math.max(0, Math.round(position)))]!.toFixed(3)
  const middle = (sorted.length - 1) / 2
  const half = 0.98 * Math.sqrt(sorted.length)
  return `${at(middle)} (95 %: ${at(middle - half)} to ${at(middle + half)}; quartiles ${at(middle / 2)}, ${at(1.5 * middle)})`
}

const offSteps = 20
const offRounds = 5_000
const offTurns = 200

/** How long a call takes, in ms, and how many requests it costs, where each node answers after 20 ms. */
const measureLatency = async (): Promise<void> => {
  const tip = extend(undefined, polledBlocks + 2)
  const number = `0x${tip.number.toString(16)}`
  const transaction = String(tip.transactions[0]!['hash'])
  const logs = { fromBlock: `0x${(tip.number - polledBlocks + 1).toString(16)}`, toBlock: number, address: contracts[0]! }
  const questions: readonly (readonly [method: string, ...params: Json[]])[] = [
    ['eth_getBalance', account, number],
    ['eth_getLogs', logs],
    ['eth_getTransactionReceipt', transaction],
    ['eth_getBlockByNumber', number, true],
  ]
  console.log(
    `\nms until the answer of a call, and its requests, where each of 3 nodes answers after ${nodeDelayMs} ms: the first call, and the same once more\n`,
  )
  console.log(`${''.padEnd(28)}${latencyPolicies.map(policy => policy.padStart(22)).join('')}`)
  for (const [method, ...params] of questions) {
    const cells: string[] = []
    for (const policy of latencyPolicies) {
      const gateway = await openGateway({ [method]: policy }, () => tip, { after: nodeDelayMs })
      const measure = async (): Promise<string> => {
        const [startedAt, before] = [gateway.clock.monotonic(), gateway.requests.length]
        const { error } = await gateway.call(method, params)
        if (error !== undefined) throw new Error(error.message)
        return `${gateway.clock.monotonic() - startedAt} (${gateway.requests.length - before})`
      }
      cells.push(`${await measure()}, ${await measure()}`)
      await gateway.stop()
    }
    console.log(`${method.padEnd(28)}${cells.map(cell => cell.padStart(22)).join('')}`)
  }
}

const nodeDelayMs = 20
const latencyPolicies = ['off', 'check', 'proof', '2 of 3']

const indexerCount = 1_000
const polledBlocks = 10
const blockCount = 8

const nodeMethods = [
  ...['eth_blockNumber', 'eth_getBlockByNumber', 'eth_getBlockByHash', 'eth_getBlockReceipts', 'eth_getLogs', 'eth_getProof'],
  ...['eth_getBalance', 'eth_getTransactionReceipt', 'eth_getTransactionByHash'],
]

/** A gateway in front of 3 nodes that have this newest block. */
const openGateway = (
  methods: Readonly<Record<string, string>>,
  tip: () => ModelBlock,
  { after = 0, hasCache = false, onRequest = () => undefined }: { after?: number; hasCache?: boolean; onRequest?(): void },
) =>
  harness({
    network: { chainId, blockTime: 12_000 },
    pipeline: `${hasCache ? '\n- cache: { maxBytes: 64MiB }' : ''}
- failover: { upstreams: [${nodeNames.map(name => `{ name: ${name}, url: http://${name}.test }`).join(', ')}] }
- verify: { methods: ${JSON.stringify(methods)}, maxBytes: 16MiB }
- upstream: {}`,
    upstream: Object.fromEntries(
      nodeMethods.map(method => [
        method,
        ({ params }: { readonly params: Json }) => {
          onRequest()
          return { after, result: answerAt(tip(), { method, params: params as readonly Json[] }) ?? null } // as requests have them
        },
      ]),
    ),
  })

/** Requests to nodes of each block while all indexers poll the last blocks once a block, after those of the first block. */
const requestsPerBlock = async (policy: string, filterCount: number): Promise<{ readonly byCalls: number; readonly all: number }> => {
  let tip = extend(undefined, polledBlocks + 1)
  let all = 0
  const gateway = await openGateway({ eth_getLogs: policy }, () => tip, { hasCache: true, onRequest: () => void (all += 1) })
  const counts: { byCalls: number; all: number }[] = []
  for (let block = 0; block < blockCount; block++) {
    tip = createBlock(tip, random, size)
    const before = { byCalls: gateway.requests.length, all }
    await gateway.advance('12s')
    for (let i = 0; i < indexerCount; i++) {
      const filter = {
        fromBlock: `0x${(tip.number - polledBlocks + 1).toString(16)}`,
        toBlock: 'latest',
        address: contracts[i % filterCount]!,
      }
      const { error } = await gateway.call('eth_getLogs', [filter])
      if (error !== undefined) throw new Error(error.message)
    }
    counts.push({ byCalls: gateway.requests.length - before.byCalls, all: all - before.all })
  }
  await gateway.stop()
  const mean = (of: (each: (typeof counts)[number]) => number) =>
    counts.slice(1).reduce((sum, each) => sum + of(each), 0) / (blockCount - 1)
  return { byCalls: mean(each => each.byCalls), all: mean(each => each.all) }
}

const measureIndexers = async (): Promise<void> => {
  console.log(`\nRequests to 3 nodes for each block, while ${indexerCount} indexers poll the logs of the last ${polledBlocks} blocks\n`)
  console.log('filters that differ        off      proof   all: off      proof   proof / off')
  for (const filterCount of [1_000, 100, 10, 1]) {
    const off = await requestsPerBlock('off', filterCount)
    const proof = await requestsPerBlock('proof', filterCount)
    const figures = [off.byCalls, proof.byCalls, off.all, proof.all].map(figure => figure.toFixed(1))
    console.log(
      `${String(filterCount).padEnd(19)} ${[...figures, (proof.all / off.all).toFixed(3)].map(figure => figure.padStart(9)).join('  ')}`,
    )
  }
  console.log('\nall: with those of the heads, which the gateway asks for without calls')
}

const parts = { off: measureOff, cpu: measureCalls, time: measureLatency, indexers: measureIndexers }
const isPart = (name: string): name is keyof typeof parts => Object.hasOwn(parts, name)
const wanted = process.argv.slice(2).filter(isPart)
for (const name of wanted.length > 0 ? wanted : Object.keys(parts).filter(isPart)) await parts[name]()
