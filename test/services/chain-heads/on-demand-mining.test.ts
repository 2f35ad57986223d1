import t from 'tap'
import { harness } from '../../../src/testing/index.ts'

// A node that makes a block for each transaction, behind the whole cache.

const address = `0x${'1'.repeat(40)}`
const startMs = Date.UTC(2026, 0, 15, 12)

/** `ageMs`: of the newest block, when the test begins. */
const open = async (blockTime: number, { number, ageMs }: { readonly number: number; readonly ageMs: number }) => {
  const chain = { number, timestampMs: startMs - ageMs, sent: 0, polls: 0 }
  const block = () => ({
    number: `0x${chain.number.toString(16)}`,
    hash: `0x${chain.number.toString(16).padStart(64, '0')}`,
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

t.test('where blocks come on demand, the block of a transaction is polled for 250 ms after it, once for all of that time', async t => {
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
