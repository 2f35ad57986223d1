import t from '../../support/tap.ts'
import { harness } from '../../../src/testing/index.ts'
import { toHexQuantity } from '../../../src/util/json.ts'
import { openModelHeads } from './model-heads.ts'

// A node that makes a block for each transaction, behind the whole cache.

const address = `0x${'1'.repeat(40)}`
const startMs = Date.UTC(2026, 0, 15, 12)

/** `ageMs`: of the newest block, when the test begins. */
const open = async (blockTime: number, { number, ageMs }: { readonly number: number; readonly ageMs: number }) => {
  const chain = { number, timestampMs: startMs - ageMs, sent: 0, polls: 0 }
  const block = () => ({
    number: `0x${chain.number.toString(16)}`,
    hash: toHexQuantity(chain.timestampMs).padEnd(66, '0'),
    parentHash: `0x${'f'.repeat(64)}`,
    timestamp: `0x${Math.floor(chain.timestampMs / 1_000).toString(16)}`,
  })
  const gateway = await harness({
    pipeline:
      '- envelope: {}\n- cache: { maxBytes: 1MiB }\n- failover: { upstreams: [{ name: own, url: "http://own.test" }] }\n- upstream: {}',
    network: { blockTime },
    upstream: {
      eth_getBlockByNumber: ({ params }) => {
        if ((params as string[])[0] === 'latest') chain.polls += 1
        return { result: (params as string[])[0] === 'latest' ? block() : null }
      },
      eth_getBalance: () => ({ result: `0x${(16 + chain.sent).toString(16)}` }),
      eth_sendRawTransaction: () => {
        chain.sent += 1
        return { result: `0x${'2'.repeat(64)}` }
      },
    },
  })
  const balance = async () => (await gateway.call('eth_getBalance', [address, 'latest'])).result
  const send = () => gateway.call('eth_sendRawTransaction', ['0x02f8'])
  return { chain, gateway, balance, send }
}

t.test(
  'where blocks come on demand, a caller who has sent a transaction gets no answer from before, whatever the block time is',
  async t => {
    for (const [blockTime, head] of [
      [1_000, { number: 7, ageMs: 60_000 }],
      [12_000, { number: 7, ageMs: 3_600_000 }],
      [12_000, { number: 0, ageMs: 0 }],
    ] as const) {
      const { gateway, balance, send } = await open(blockTime, head)
      t.same([await balance(), await balance()], ['0x10', '0x10'])
      await send()
      t.equal(await balance(), '0x11', `block time ${blockTime}`)
      await gateway.stop()
    }
  },
)

t.test('where blocks come on demand, the upstreams are polled 250 ms after a transaction, once for all of that time', async t => {
  const { chain, gateway, balance, send } = await open(12_000, { number: 7, ageMs: 3_600_000 })
  t.equal(await balance(), '0x10')
  const { polls } = chain
  for (let i = 0; i < 3; i += 1) await send()
  t.equal(await balance(), '0x13')
  Object.assign(chain, { number: 8, timestampMs: startMs, sent: 20 })
  await gateway.advance(240)
  t.same([await balance(), chain.polls], ['0x13', polls])
  await gateway.advance(20)
  t.same([await balance(), chain.polls], ['0x24', polls + 1], 'the poll has found the block')
  await gateway.stop()
})

t.test('where blocks come by the clock, a transaction leaves the cached answers as they are', async t => {
  const { chain, gateway, balance, send } = await open(12_000, { number: 7, ageMs: 11_000 })
  t.equal(await balance(), '0x10')
  const { polls } = chain
  await send()
  t.equal(await balance(), '0x10')
  await gateway.advance(400)
  t.equal(chain.polls, polls)
  await gateway.stop()
})

/** Sends a transaction every 300 ms, 40 times. `mine` is called after each. */
const sendMany = async ({ gateway, send }: Awaited<ReturnType<typeof open>>, mine: (sinceMs: number) => void): Promise<void> => {
  for (let sinceMs = 300; sinceMs <= 12_000; sinceMs += 300) {
    await send()
    mine(sinceMs)
    await gateway.advance(300)
  }
}

t.test('once most transactions bring no block, blocks come by the clock: the chain had halted, or its nodes were behind', async t => {
  const network = await open(2_000, { number: 7, ageMs: 60_000 })
  const { chain, gateway, balance, send } = network
  const isCachedAcrossTransaction = async () => {
    const before = await balance()
    await send()
    return (await balance()) === before
  }
  t.notOk(await isCachedAcrossTransaction(), 'the chain has halted')
  await sendMany(network, sinceMs => {
    const blocks = Math.floor(sinceMs / 2_000)
    Object.assign(chain, { number: 8 + blocks, timestampMs: startMs + blocks * 2_000 })
  })
  t.ok(await isCachedAcrossTransaction())
  await gateway.stop()
})

t.test('while transactions bring blocks, these come on demand, however often', async t => {
  const network = await open(2_000, { number: 7, ageMs: 60_000 })
  const { chain, gateway, balance, send } = network
  await balance()
  await sendMany(network, sinceMs => Object.assign(chain, { number: chain.number + 1, timestampMs: startMs + sinceMs }))
  const before = await balance()
  await send()
  t.not(await balance(), before)
  await gateway.stop()
})

t.test('while transactions bring blocks, these come on demand, though the node is taken back before each', async t => {
  const network = await open(12_000, { number: 7, ageMs: 3_600_000 })
  const { chain, gateway, balance, send } = network
  await balance()
  await sendMany(network, sinceMs => Object.assign(chain, { number: 8, timestampMs: startMs + sinceMs }))
  const before = await balance()
  await send()
  t.not(await balance(), before)
  await gateway.stop()
})

// Two nodes of a chain with blocks of 1 s, of which `b` is a minute behind.

const openLagging = () => {
  const { heads, clock, responseOverrides, recordCall, advance, settle } = openModelHeads()
  const ages: Record<string, number> = { a: 1_000, b: 60_000 }
  /** What `a` answers a poll when; undefined: an error. */
  const newest = { whenAsked: Promise.resolve(), isReachable: true }
  for (const name of ['a', 'b'])
    responseOverrides.set(name, async (method, [block]) => {
      if (method === 'eth_chainId') return '0x1'
      if (block !== 'latest') return null
      if (name === 'a') await newest.whenAsked
      const second = Math.floor((clock.now() - (ages[name] ?? 0)) / 1_000)
      const hash = toHexQuantity(second).slice(2).padStart(64, '0')
      const number = toHexQuantity(second - Math.floor(clock.now() / 1_000) + 1_000)
      return name === 'a' && !newest.isReachable
        ? undefined
        : { number, hash: `0x${hash}`, parentHash: `0x${'f'.repeat(64)}`, timestamp: toHexQuantity(second) }
    })
  /** Whether a transaction ends what is cached about the newest block. */
  const endsCached = () => {
    const { headVersion } = heads.snapshot
    heads.recordTransaction()
    return heads.snapshot.headVersion > headVersion
  }
  return { ages, newest, heads, endsCached, recordCall, advance, settle }
}

t.test('where blocks come by the clock, the old head of a node that lags is not taken for that of the chain', async t => {
  t.test('although it is the first that is known', async t => {
    const { newest, heads, endsCached, recordCall, settle } = openLagging()
    let answer = () => {}
    newest.whenAsked = new Promise(resolve => (answer = resolve))
    await recordCall()
    t.equal(heads.status.head, 940)
    t.notOk(endsCached())
    answer()
    await settle()
    t.equal(heads.status.head, 999)
    t.notOk(endsCached())
  })

  t.test('although the other nodes do not answer for a moment', async t => {
    const { newest, heads, endsCached, recordCall, advance } = openLagging()
    await recordCall()
    newest.isReachable = false
    await advance(2_500)
    t.equal(heads.status.head, 940)
    t.notOk(endsCached())
  })
})

t.test('where all nodes have the old head, blocks come on demand', async t => {
  const { ages, endsCached, recordCall } = openLagging()
  ages['a'] = 60_000
  await recordCall()
  t.ok(endsCached())
})
