import t from '../../support/tap.ts'
import cache from '../../../plugins/cache/index.ts'
import type { Call, Json, ContextKey } from '../../../src/plugin/call.ts'
import { isFailure, refuse } from '../../../src/plugin/reply.ts'
import type { Reply } from '../../../src/plugin/reply.ts'
import { Secret } from '../../../src/plugin/secret.ts'
import type { SharedCaches, SharedCacheEntry, Services, BlockId } from '../../../src/services/index.ts'
import { shippedMethods } from '../../services/method-table/shipped-table.ts'
import { deployEmitter, startAnvilChain } from '../../support/anvil-chain.ts'
import { TestClock, fakeCall, fakeResult, valueOrErrorCode, createStage } from '../../support/fakes.ts'
import { createDeployment, networkFile } from '../../support/deployment.ts'
import type { Deployment } from '../../support/deployment.ts'
import { skipWithoutRedis, startRedisServer } from '../../support/redis-server.ts'
import { post } from '../../support/rpc-client.ts'

// The second level of the cache: final answers that machines share through Redis.

const hashOf = (number: number, chain: string): string => `0x${number.toString(16)}${chain}`

/** A shared cache in memory. */
const startFakeSharedCache = () => {
  const entries = new Map<string, SharedCacheEntry>()
  const lookups: string[] = []
  const caches: SharedCaches = {
    open: () => ({
      async get(name, maxBytes, accept) {
        lookups.push(name)
        const entry = entries.get(name)
        return entry !== undefined && entry.result.byteLength <= maxBytes && (await accept(entry)) ? entry : undefined
      },
      set: (name, entry) => void entries.set(name, entry),
    }),
  }
  return { entries, lookups, caches }
}

interface Machine {
  readonly chain?: string
  readonly final?: number
  readonly name?: string
  readonly chainId?: number
  readonly vary?: string
  readonly options?: object
}

/** A gateway whose node `own` is on this chain, with this finalized block. */
const openMachine = (
  caches: SharedCaches,
  { chain = 'a', final = 16, name = 'net', chainId = 1, vary = '', options = {} }: Machine = {},
) => {
  const node = { chain, final, finalityVersion: 0 }
  const verified: BlockId[] = []
  const clock = new TestClock()
  const heads = {
    get snapshot() {
      const { chain, final, finalityVersion } = { ...node }
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
      verified.push(block)
      return block.number <= node.final && block.hash === hashOf(block.number, node.chain)
    },
  } as unknown as Services['heads'] // the part that the plugin uses
  const all = {
    maxBytes: 1 << 20,
    methods: {},
    redis: new Secret('redis://x'),
    ...options,
  }
  const stage = createStage(cache, all, {
    methods: shippedMethods,
    heads,
    sharedCaches: caches,
    clock,
    network: { name, chainId, blockTime: 1000, devNode: false },
    vary: () => vary,
  })
  void stage.start?.()
  let requests = 0
  const request = (call: Call<ContextKey>, reply: Reply = fakeResult('0x1', { upstream: 'own' })) =>
    stage.handle(call, async () => {
      requests += 1
      return reply
    })
  return { request, node, verified, clock, requests: () => requests }
}

interface RpcRequest {
  readonly method: string
  readonly params: readonly unknown[]
}

const hex = (value: number): string => `0x${value.toString(16)}`
const storage = (block = '0x10') => fakeCall('eth_getStorageAt', ['0xa', '0x0', block])
const own = (value: Json) => fakeResult(value, { upstream: 'own' })

t.test('a final answer of one machine is a cache hit on another', async t => {
  for (const [call, value] of [
    [storage(), '0x7'],
    [fakeCall('eth_getLogs', [{ fromBlock: '0x1', toBlock: '0x10' }]), []],
    [fakeCall('eth_getTransactionReceipt', ['0x1']), { blockNumber: '0x10' }],
  ] as const) {
    const { caches, lookups } = startFakeSharedCache()
    const [one, other] = [openMachine(caches), openMachine(caches, { final: 20 })]
    t.match(await one.request(call, own(value)), { cache: 'miss' })
    const hit = await other.request(call)
    t.match(hit, { cache: 'hit', source: 'cache' })
    t.equal(hit.upstream, undefined)
    t.same(valueOrErrorCode(hit), value)
    t.match(await other.request(call), { cache: 'hit', source: 'cache' })
    t.equal(other.requests(), 0)
    t.equal(lookups.length, 2, 'the entry is cached in memory too')
  }
})

t.test('only answers that are final on an own node are shared', async t => {
  for (const [what, call, reply] of [
    ['a block that is not finalized', storage('0x11'), own('0x1')],
    ['the newest block', fakeCall('eth_blockNumber'), own('0x10')],
    ['a receipt in a block that is not finalized', fakeCall('eth_getTransactionReceipt', ['0x1']), own({ blockNumber: '0x11' })],
    ['a transaction without a receipt', fakeCall('eth_getTransactionReceipt', ['0x1']), own(null)],
    ['an answer of a partner', storage(), fakeResult('0x1', { upstream: 'helper', source: 'partner' })],
    ['an answer of a partner with the name of a node', storage(), fakeResult('0x1', { upstream: 'own', source: 'partner' })],
    ['an error', storage(), refuse('tooMany', { upstream: 'own' })],
    ['an answer above 1 MiB', storage(), own('0'.repeat(1 << 20))],
  ] as const) {
    const { caches, entries } = startFakeSharedCache()
    await openMachine(caches).request(call, reply)
    t.equal(entries.size, 0, what)
  }
})

t.test('requests without a final answer cause no look-up', async t => {
  const { caches, lookups } = startFakeSharedCache()
  const { request } = openMachine(caches)
  for (const call of [storage('latest'), storage('0x11'), storage('pending'), fakeCall('eth_blockNumber'), fakeCall('eth_getLogs', [{}])])
    await request(call)
  t.same(lookups, [])
})

t.test('an entry is returned only where its block is finalized too', async t => {
  const { caches } = startFakeSharedCache()
  await openMachine(caches).request(storage())
  const behind = openMachine(caches, { final: 15 })
  await behind.request(storage('0xf'))
  const other = openMachine(caches, { chain: 'b', final: 30 })
  t.match(await other.request(storage(), own('0x2')), { cache: 'miss' })
  t.equal(
    valueOrErrorCode(await openMachine(caches, { chain: 'b', final: 30 }).request(storage())),
    '0x2',
    'and replaced by the answer of that chain',
  )
  const first = openMachine(caches, { final: 30 })
  t.match(await first.request(storage(), own('0x3')), { cache: 'miss' })
  t.equal(valueOrErrorCode(await first.request(storage())), '0x3')
})

t.test('a reorg of finalized blocks has all entries verified anew', async t => {
  const { caches } = startFakeSharedCache()
  await Promise.all(['0x1', '0x2', '0x3'].map(block => openMachine(caches).request(storage(block))))
  const { request, node, verified } = openMachine(caches, { final: 20 })
  t.match(await request(storage('0x1')), { cache: 'hit' })
  t.match(await request(storage('0x2')), { cache: 'hit' })
  t.equal(verified.length, 1, 'each block is verified once')
  Object.assign(node, { chain: 'b', finalityVersion: 1 })
  t.match(await request(storage('0x3')), { cache: 'miss' })
  t.match(await request(storage('0x1')), { cache: 'miss' })
})

t.test('a block that is not finalized here is verified again after 5 s', async t => {
  const { caches } = startFakeSharedCache()
  const first = openMachine(caches)
  for (const block of ['0xd', '0xe', '0xf']) await first.request(storage(block))
  const { request, node, verified, clock } = openMachine(caches, { final: 15 })
  t.match(await request(storage('0xf')), { cache: 'miss' })
  node.final = 16
  t.match(await request(storage('0xe')), { cache: 'miss' })
  t.equal(verified.length, 1)
  clock.advance(5_001)
  t.match(await request(storage('0xd')), { cache: 'hit' })
  t.equal(verified.length, 2)
})

t.test('entries differ by network, chain and variant of the caller', async t => {
  const { caches, entries } = startFakeSharedCache()
  const all = [{}, { name: 'other' }, { chainId: 2 }, { vary: 'forwarding' }]
  for (const machine of all) t.match(await openMachine(caches, machine).request(storage()), { cache: 'miss' })
  t.equal(entries.size, 4)
  for (const machine of all) t.match(await openMachine(caches, machine).request(storage()), { cache: 'hit' })
  t.ok(
    [...entries.keys()].every(name => /^\d+:[a-z]+:[\w-]{43}$/.test(name)),
    'a name contains nothing of the request',
  )
})

t.test('an entry above the maxResults of this machine is not returned', async t => {
  const { caches } = startFakeSharedCache()
  const call = fakeCall('eth_getLogs', [{ fromBlock: '0x1', toBlock: '0x10' }])
  await openMachine(caches).request(call, own([]))
  const counted: SharedCaches = {
    open: () => ({
      ...caches.open(new Secret('x')),
      get: (name, maxBytes, accept) => caches.open(new Secret('x')).get(name, maxBytes, entry => accept({ ...entry, count: 10_001 })),
    }),
  }
  t.match(await openMachine(counted).request(call), { cache: 'miss' })
})

t.test('a thousand identical misses cause one look-up and one request', async t => {
  const { caches, lookups } = startFakeSharedCache()
  const { request, requests } = openMachine(caches)
  const replies = await Promise.all(Array.from({ length: 1000 }, () => request(storage())))
  t.notOk(replies.some(isFailure))
  t.equal(lookups.length, 1)
  t.equal(requests(), 1)
})

t.test('two gateways with separate stores share one redis', { skip: skipWithoutRedis }, async t => {
  const [chain, redis] = await Promise.all([startAnvilChain(), startRedisServer()])
  const emitter = await deployEmitter(chain)
  await emitter.emitLogs(3)
  await chain.request('anvil_mine', '0x200')
  const deployments = [0, 1].map(() =>
    createDeployment({
      networks: { devnet: { ...networkFile('devnet', [chain.url], { cache: { redis: '${CACHE}' } }), blockTime: '1s' } },
      env: { CACHE: redis.url },
    }),
  )
  t.teardown(async () => {
    await Promise.all(deployments.map(deployment => deployment.remove()))
    await Promise.all([chain.stop(), redis.remove()])
  })
  const start = async (deployment: Deployment, account: string) => {
    const { key } = await deployment.addCaller(account)
    const gateway = await deployment.start()
    return async ({ method, params }: RpcRequest) => {
      const response = await post(gateway.http(key), JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }))
      return { result: response.json().result, isHit: response.headers['x-tollgate-cache'] === 'hit' }
    }
  }
  const [one, other] = await Promise.all([start(deployments[0]!, 'alice'), start(deployments[1]!, 'alice')])
  const entries = async () => ((await redis.send('KEYS', 'tollgate:cache:1:31337:devnet:*')) as string[]).length
  const responseOfNode = ({ method, params }: RpcRequest) => chain.request<unknown>(method, ...params)
  let block = 1
  const shared: RpcRequest[] = []
  const requestCreators: readonly (() => RpcRequest)[] = [
    () => ({ method: 'eth_getStorageAt', params: [emitter.address, '0x0', hex(block++)] }),
    () => ({ method: 'eth_getLogs', params: [{ address: emitter.address, fromBlock: '0x0', toBlock: hex(block++) }] }),
    () => ({ method: 'eth_getBlockByNumber', params: [hex(block++), false] }),
  ]

  t.test('a final answer of one gateway is a cache hit on the other', async t => {
    for (const createRequest of requestCreators) {
      // Repeated with new requests, as a gateway first learns what is finalized, and look-ups may be late on a busy machine.
      for (let isHit = false; !isHit; ) {
        const [request, before] = [createRequest(), await entries()]
        const first = await one(request)
        if (first.isHit || (await entries()) === before) continue
        shared.push(request)
        const second = await other(request)
        t.same(second.result, first.result)
        isHit = second.isHit
      }
    }
  })

  t.test('calls are answered while redis is unresponsive', async t => {
    redis.pause()
    for (let i = 0; i < 20; i++) {
      const request = requestCreators[0]!()
      t.same(await one(request), { result: await responseOfNode(request), isHit: false })
    }
    redis.resume()
  })

  t.test('after a reset of the chain no entry of the old chain is returned, not even by a gateway that started later', async t => {
    await chain.request('anvil_reset')
    await chain.request('anvil_mine', '0x300')
    const late = await start(deployments[0]!, 'bob')
    // Until it knows the finalized block, and is connected to redis.
    for (const before = await entries(); (await entries()) === before; ) await late(requestCreators[0]!())
    for (let i = 0; i < 3; i++) for (const request of shared) t.same((await late(request)).result, await responseOfNode(request))
  })
})
