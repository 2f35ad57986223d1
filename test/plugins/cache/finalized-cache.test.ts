import t from 'tap'
import cache from '../../../plugins/cache/index.ts'
import type { Call, Json, ContextKey } from '../../../src/plugin/call.ts'
import { isFailure, refuse } from '../../../src/plugin/reply.ts'
import type { Reply } from '../../../src/plugin/reply.ts'
import { Secret } from '../../../src/plugin/secret.ts'
import type { SharedCaches, SharedCacheEntry, MethodTable, Services, BlockId } from '../../../src/services/index.ts'
import { deployEmitter, startAnvilChain } from '../../support/anvil-chain.ts'
import { fakeCall, fakeResult, valueOrErrorCode, createStage } from '../../support/fakes.ts'
import { createDeployment, networkFile } from '../../support/deployment.ts'
import type { Deployment } from '../../support/deployment.ts'
import { skipWithoutRedis, startRedisServer } from '../../support/redis-server.ts'
import { post } from '../../support/rpc-client.ts'

// The second level of the cache: answers that machines share.

const table = {
  get: (name: string) =>
    (
      ({
        eth_getStorageAt: { cache: 'block', blockParam: 2 },
        eth_getLogs: { cache: 'block', blockParam: 0, maxResults: 3 },
        eth_getTransactionReceipt: { cache: 'mined' },
        eth_blockNumber: { cache: 'latest' },
      }) as Record<string, object>
    )[name],
  names: ['eth_getStorageAt', 'eth_getLogs', 'eth_getTransactionReceipt', 'eth_blockNumber'],
} as unknown as MethodTable // what the plugin reads of it

const hashOf = (number: number, chain: string): string => `0x${number.toString(16)}${chain}`

/** What one Redis holds. */
const startFakeSharedCache = () => {
  const kept = new Map<string, SharedCacheEntry>()
  const looked: string[] = []
  const caches: SharedCaches = {
    open: () => ({
      async get(name, maxBytes, accept) {
        looked.push(name)
        const entry = kept.get(name)
        return entry !== undefined && entry.result.byteLength <= maxBytes && (await accept(entry)) ? entry : undefined
      },
      set: (name, entry) => void kept.set(name, entry),
    }),
  }
  return { kept, looked, caches }
}

interface Machine {
  readonly chain?: string
  readonly final?: number
  readonly name?: string
  readonly chainId?: number
  readonly vary?: string
  readonly options?: object
}

/** A gateway whose node `own` is on this chain, and knows this block to be final. */
const openMachine = (
  caches: SharedCaches,
  { chain = 'a', final = 16, name = 'net', chainId = 1, vary = '', options = {} }: Machine = {},
) => {
  const world = { chain, final, finalityVersion: 0 }
  const proved: BlockId[] = []
  const heads = {
    get snapshot() {
      const { chain, final, finalityVersion } = { ...world }
      return {
        finalityVersion,
        headVersion: 0,
        isCurrent: () => true,
        isFinal: (upstream: string | undefined, block: number) => upstream === 'own' && block <= final,
        finalizedBlockOf: (upstream = 'own') => (upstream === 'own' ? { number: final, hash: hashOf(final, chain) } : undefined),
      }
    },
    pollIntervalMs: 500,
    recordActivity: () => undefined,
    async verifyFinalized(block: BlockId) {
      proved.push(block)
      return block.number <= world.final && block.hash === hashOf(block.number, world.chain)
    },
  } as unknown as Services['heads'] // what the plugin asks of it
  const all = {
    maxBytes: 1 << 20,
    methods: {},
    cacheTooManyFor: 10_000,
    redis: new Secret('redis://x'),
    redisTtl: 1000,
    redisMaxBytes: 1000,
    ...options,
  }
  const stage = createStage(cache, all, {
    methods: table,
    heads,
    sharedCaches: caches,
    network: { name, chainId, blockTime: 1000 },
    vary: () => vary,
  })
  void stage.start?.()
  let asked = 0
  const ask = (c: Call<ContextKey>, reply: Reply = fakeResult('0x1', { upstream: 'own' })) =>
    stage.handle(c, async () => {
      asked += 1
      return reply
    })
  return { ask, world, proved, asked: () => asked }
}

interface Question {
  readonly method: string
  readonly params: readonly unknown[]
}

const hex = (value: number): string => `0x${value.toString(16)}`
const storage = (block = '0x10') => fakeCall('eth_getStorageAt', ['0xa', '0x0', block])
const own = (value: Json) => fakeResult(value, { upstream: 'own' })

t.test('what one machine knows to be final another need not ask for, and neither asks again', async t => {
  for (const [question, value] of [
    [storage(), '0x7'],
    [fakeCall('eth_getLogs', [{ fromBlock: '0x1', toBlock: '0x10' }]), []],
    [fakeCall('eth_getTransactionReceipt', ['0x1']), { blockNumber: '0x10' }],
  ] as const) {
    const { caches, looked } = startFakeSharedCache()
    const [one, other] = [openMachine(caches), openMachine(caches, { final: 20 })]
    t.match(await one.ask(question, own(value)), { cache: 'miss' })
    const hit = await other.ask(question)
    t.match(hit, { cache: 'hit', source: 'cache' })
    t.equal(hit.upstream, undefined)
    t.same(valueOrErrorCode(hit), value)
    t.match(await other.ask(question), { cache: 'hit', source: 'cache' })
    t.equal(other.asked(), 0)
    t.equal(looked.length, 2, 'what was found is kept in memory')
  }
})

t.test('only what is proved final, and by an own node, is shared', async t => {
  for (const [what, question, reply] of [
    ['a block that is not final', storage('0x11'), own('0x1')],
    ['the newest block', fakeCall('eth_blockNumber'), own('0x10')],
    ['a receipt in a block that is not final', fakeCall('eth_getTransactionReceipt', ['0x1']), own({ blockNumber: '0x11' })],
    ['a transaction without a receipt', fakeCall('eth_getTransactionReceipt', ['0x1']), own(null)],
    ['what a partner says', storage(), fakeResult('0x1', { upstream: 'helper', source: 'partner' })],
    ['a partner that calls itself like a node', storage(), fakeResult('0x1', { upstream: 'own', source: 'partner' })],
    ['an error', storage(), refuse('tooMany', { upstream: 'own' })],
    ['what is too long', storage(), own('0'.repeat(1000))],
  ] as const) {
    const { caches, kept } = startFakeSharedCache()
    await openMachine(caches).ask(question, reply)
    t.equal(kept.size, 0, what)
  }
})

t.test('nobody looks for what cannot be there', async t => {
  const { caches, looked } = startFakeSharedCache()
  const { ask } = openMachine(caches)
  for (const question of [
    storage('latest'),
    storage('0x11'),
    storage('pending'),
    fakeCall('eth_blockNumber'),
    fakeCall('eth_getLogs', [{}]),
  ])
    await ask(question)
  t.same(looked, [])
})

t.test('an answer is taken only where the final block that it rests on is final too', async t => {
  const { caches } = startFakeSharedCache()
  await openMachine(caches).ask(storage())
  const behind = openMachine(caches, { final: 15 })
  await behind.ask(storage('0xf'))
  const other = openMachine(caches, { chain: 'b', final: 30 })
  t.match(await other.ask(storage(), own('0x2')), { cache: 'miss' })
  t.equal(
    valueOrErrorCode(await openMachine(caches, { chain: 'b', final: 30 }).ask(storage())),
    '0x2',
    'and replaced by what is right there',
  )
  const first = openMachine(caches, { final: 30 })
  t.match(await first.ask(storage(), own('0x3')), { cache: 'miss' })
  t.equal(valueOrErrorCode(await first.ask(storage())), '0x3')
})

t.test('a chain whose final blocks are undone proves everything anew', async t => {
  const { caches } = startFakeSharedCache()
  await Promise.all(['0x1', '0x2', '0x3'].map(block => openMachine(caches).ask(storage(block))))
  const { ask, world, proved } = openMachine(caches, { final: 20 })
  t.match(await ask(storage('0x1')), { cache: 'hit' })
  t.match(await ask(storage('0x2')), { cache: 'hit' })
  t.equal(proved.length, 1, 'a block is asked for once')
  Object.assign(world, { chain: 'b', finalityVersion: 1 })
  t.match(await ask(storage('0x3')), { cache: 'miss' })
  t.match(await ask(storage('0x1')), { cache: 'miss' })
})

t.test('networks, chains and rights of callers are told apart', async t => {
  const { caches, kept } = startFakeSharedCache()
  const all = [{}, { name: 'other' }, { chainId: 2 }, { vary: 'forwarding' }]
  for (const machine of all) t.match(await openMachine(caches, machine).ask(storage()), { cache: 'miss' })
  t.equal(kept.size, 4)
  for (const machine of all) t.match(await openMachine(caches, machine).ask(storage()), { cache: 'hit' })
  t.ok(
    [...kept.keys()].every(name => /^\d+:[a-z]+:[\w-]{43}$/.test(name)),
    'nothing of a question stands in a name',
  )
})

t.test('an answer that goes past the limit of this machine is none', async t => {
  const { caches } = startFakeSharedCache()
  const question = fakeCall('eth_getLogs', [{ fromBlock: '0x1', toBlock: '0x10' }])
  await openMachine(caches).ask(question, own([1, 2, 3, 4]))
  const counted: SharedCaches = {
    open: () => ({
      ...caches.open(new Secret('x')),
      get: (name, most, accept) => caches.open(new Secret('x')).get(name, most, entry => accept({ ...entry, count: 4 })),
    }),
  }
  t.match(await openMachine(counted).ask(question), { cache: 'miss' })
})

t.test('a thousand identical misses look once, and ask once', async t => {
  const { caches, looked } = startFakeSharedCache()
  const { ask, asked } = openMachine(caches)
  const replies = await Promise.all(Array.from({ length: 1000 }, () => ask(storage())))
  t.notOk(replies.some(isFailure))
  t.equal(looked.length, 1)
  t.equal(asked(), 1)
})

t.test('two gateways with stores of their own share one redis', { skip: skipWithoutRedis }, async t => {
  const [chain, redis] = await Promise.all([startAnvilChain(), startRedisServer()])
  const emitter = await deployEmitter(chain)
  await emitter.emitLogs(3)
  await chain.request('anvil_mine', '0x200')
  const deployments = [0, 1].map(() =>
    createDeployment({
      networks: { devnet: { ...networkFile('devnet', [chain.url], { cache: { redis: '${CACHE}', redisTtl: '1h' } }), blockTime: '1s' } },
      env: { CACHE: redis.url },
    }),
  )
  t.teardown(async () => {
    await Promise.all(deployments.map(deployment => deployment.remove()))
    await Promise.all([chain.stop(), redis.remove()])
  })
  const start = async (deployment: Deployment, account: string) => {
    await deployment.addAccount(account)
    const { key } = await deployment.addKey(account)
    const gateway = await deployment.start()
    return async ({ method, params }: Question) => {
      const answer = await post(gateway.http(key), JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }))
      return { result: answer.json().result, isHit: answer.headers['x-tollgate-cache'] === 'hit' }
    }
  }
  const [one, other] = await Promise.all([start(deployments[0]!, 'alice'), start(deployments[1]!, 'alice')])
  const entries = async () => ((await redis.send('KEYS', 'tollgate:cache:1:31337:devnet:*')) as string[]).length
  const truth = ({ method, params }: Question) => chain.request<unknown>(method, ...params)
  let block = 1
  const shared: Question[] = []
  const kinds: readonly (() => Question)[] = [
    () => ({ method: 'eth_getStorageAt', params: [emitter.address, '0x0', hex(block++)] }),
    () => ({ method: 'eth_getLogs', params: [{ address: emitter.address, fromBlock: '0x0', toBlock: hex(block++) }] }),
    () => ({ method: 'eth_getBlockByNumber', params: [hex(block++), false] }),
  ]

  t.test('what one has asked for the other gives at once', async t => {
    for (const kind of kinds) {
      // A gateway must know first what is final; and on a busy machine 5 ms pass in no time. What is asked is always new.
      for (let isHit = false; !isHit; ) {
        const [question, before] = [kind(), await entries()]
        const asked = await one(question)
        if (asked.isHit || (await entries()) === before) continue
        shared.push(question)
        const given = await other(question)
        t.same(given.result, asked.result)
        isHit = given.isHit
      }
    }
  })

  t.test('calls go on while redis hangs', async t => {
    redis.pause()
    for (let i = 0; i < 20; i++) {
      const question = kinds[0]!()
      t.same(await one(question), { result: await truth(question), isHit: false })
    }
    redis.resume()
  })

  t.test('when the chain is reset nothing of the old one is told, not even by a gateway that knew neither', async t => {
    await chain.request('anvil_reset')
    await chain.request('anvil_mine', '0x300')
    const late = await start(deployments[0]!, 'bob')
    // Until it knows what is final, and redis.
    for (const before = await entries(); (await entries()) === before; ) await late(kinds[0]!())
    for (let i = 0; i < 3; i++) for (const question of shared) t.same((await late(question)).result, await truth(question))
  })
})
