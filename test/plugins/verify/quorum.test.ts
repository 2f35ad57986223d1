import fc from 'fast-check'
import t from '../../support/tap.ts'
import { canonicalJson } from '../../../plugins/verify/comparable-answer.ts'
import type { Json } from '../../../src/plugin/call.ts'
import { harness } from '../../../src/testing/index.ts'
import type { FakeResponse, FakeUpstream } from '../../../src/testing/fake-upstreams.ts'
import { TestClock } from '../../support/fakes.ts'
import { startAnvilChain } from '../../support/anvil-chain.ts'
import type { JsonMembers } from './verify-fixture.ts'

const value = (text: string): FakeResponse => ({ result: text })
const [right, wrong] = [value('0x01'), value('0x02')]
const to = `0x${'12'.repeat(20)}`
const atBlock = [{ to, data: '0x' }, '0x10'] as const

interface QuorumOptions {
  readonly policy?: string
  readonly options?: string
  readonly method?: string
  readonly clock?: TestClock
}

/** Upstreams by name; each answers eth_call so, and what else is given. */
const openQuorum = (
  answers: Readonly<Record<string, FakeResponse | FakeUpstream>>,
  { policy = '2 of 3', options = '', method = 'eth_call', clock }: QuorumOptions = {},
) =>
  harness({
    network: { chainId: 1 },
    ...(clock && { clock }),
    pipeline: `
- failover: { upstreams: [${Object.keys(answers)
      .map(name => `{ name: ${name}, url: http://${name}.test }`)
      .join(', ')}] }
- verify: { methods: { ${method}: ${policy} }${options} }
- upstream: {}`,
    upstreams: Object.fromEntries(
      Object.entries(answers).map(([name, answer]) => [
        name,
        typeof answer === 'string' || !['result', 'error', 'status'].some(key => key in answer)
          ? (answer as FakeUpstream)
          : { [method]: answer as FakeResponse },
      ]),
    ),
  })

t.test('a quorum', async t => {
  t.test('is what so many upstreams say, which are asked at once; one that says something else has no say', async t => {
    for (const answers of [
      { one: right, two: right, three: wrong },
      { one: wrong, two: right, three: right },
      { one: right, two: wrong, three: right },
    ]) {
      const gateway = await openQuorum(answers)
      t.match(await gateway.call('eth_call', atBlock), { result: '0x01', verified: 'quorum' })
      t.equal(gateway.requests.filter(({ method }) => method === 'eth_call').length, 3)
      t.equal(gateway.metric('tollgate_verified_results_total', { outcome: 'agreed' }), 1)
      await gateway.stop()
    }
  })

  t.test('that is not reached is -32002, costs nothing, and is asked for once; the log alone says who said what', async t => {
    const gateway = await openQuorum({ one: right, two: wrong, three: value('0x03') })
    const { error, credits, status } = await gateway.call('eth_call', atBlock)
    t.match(error, { code: -32002 })
    t.match({ status, credits }, { status: 503, credits: undefined })
    t.notMatch(JSON.stringify(error), /one|two|0x0/)
    t.equal(gateway.requests.filter(({ method }) => method === 'eth_call').length, 3)
    t.match(
      gateway.log.lines.filter(({ message }) => message === 'upstreams do not agree on a result'),
      [{ fields: { method: 'eth_call', said: { one: '"0x01"', two: '"0x02"', three: '"0x03"' } } }],
    )
    await gateway.stop()
  })

  t.test('has another upstream in place of one that does not answer, as long as there is one', async t => {
    const all = await openQuorum({ one: 'down', two: right, three: { status: 500 }, four: right })
    t.match(await all.call('eth_call', atBlock), { result: '0x01', verified: 'quorum' })
    await all.stop()
    const few = await openQuorum({ one: 'down', two: right, three: { status: 500 } })
    t.match(await few.call('eth_call', atBlock), { error: { code: -32002 } })
    t.match(
      few.log.lines.filter(({ message }) => /agree|quorum/.test(message)),
      [{ message: 'too few upstreams answered for a quorum', fields: { method: 'eth_call', required: 2 } }],
      'that is no difference between upstreams',
    )
    await few.stop()
  })

  t.test('is reached without one that is slow', async t => {
    const gateway = await openQuorum({ one: right, two: { eth_call: { result: '0x01', after: '5s' } }, three: right })
    const before = gateway.clock.monotonic()
    t.match(await gateway.call('eth_call', atBlock), { result: '0x01' })
    t.ok(gateway.clock.monotonic() - before < 1_000)
    await gateway.stop()
  })

  t.test('asks a further upstream where one has not answered a second after another', async t => {
    const slow = (after: string): FakeUpstream => ({ eth_call: { result: '0x01', after } })
    const gateway = await openQuorum({ one: slow('3s'), two: slow('60s'), three: right }, { policy: '2 of 2' })
    const before = gateway.clock.monotonic()
    t.match(await gateway.call('eth_call', atBlock), { result: '0x01', verified: 'quorum' })
    const tookMs = gateway.clock.monotonic() - before
    t.ok(tookMs >= 4_000 && tookMs < 5_000, `${tookMs} ms`)
    await gateway.stop()
  })

  t.test('makes no node suspect because another one is slow', async t => {
    const suspectsBeside = async (slow: string) => {
      let isSlow = false
      const names = ['one', 'two', 'three']
      const answers = Object.fromEntries(
        names.map((name): [string, FakeUpstream] => [
          name,
          { eth_getBalance: () => ({ result: '0x1', after: isSlow && name === slow ? 900 : 100 }) },
        ]),
      )
      const gateway = await openQuorum(answers, { policy: '2 of 2', method: 'eth_getBalance' })
      for (let i = 0; i < 112; i += 1) await gateway.call('eth_getBalance', [to, '0x10'])
      isSlow = true
      const calls = Array.from({ length: 6 }, () => gateway.call('eth_getBalance', [to, '0x10']))
      t.same(
        (await Promise.all(calls)).map(({ result }) => result),
        calls.map(() => '0x1'),
      )
      await gateway.stop()
      return gateway.log.lines.filter(({ message }) => message.startsWith('upstream suspect')).map(({ fields }) => fields)
    }
    t.same(await suspectsBeside('two'), [])
    t.match(await suspectsBeside('one'), [{ upstream: 'one' }])
  })

  t.test('is reached by errors that mean the same, however nodes word them', async t => {
    const reverted = (message: string): FakeResponse => ({ error: { code: 3, message, data: '0xAB' } })
    const gateway = await openQuorum({ one: reverted('execution reverted'), two: reverted('execution reverted: no'), three: right })
    t.match(await gateway.call('eth_call', atBlock), { error: { message: /execution reverted/, data: '0xAB' }, outcome: 'node' })
    await gateway.stop()
    const other = await openQuorum({
      one: reverted('execution reverted'),
      two: { error: { code: 3, message: 'execution reverted', data: '0xcd' } },
      three: right,
    })
    t.match(await other.call('eth_call', atBlock), { error: { code: -32002 } }, 'with other data they mean something else')
    await other.stop()
  })

  t.test('compares results above maxBytes by their bytes', async t => {
    const long = (digit: string) => value(`0x${digit.repeat(40_000)}`)
    const options = ', maxBytes: 16KiB'
    const gateway = await openQuorum({ one: long('a'), two: long('b'), three: long('a') }, { options })
    t.match(await gateway.call('eth_call', atBlock), { result: `0x${'a'.repeat(40_000)}` })
    await gateway.stop()
  })

  t.test('has of what clients and networks add what so many upstreams say alike; a difference in it is one', async t => {
    const hash = `0x${'ab'.repeat(32)}`
    const receipt = {
      ...{ transactionHash: hash, transactionIndex: '0x0', blockHash: hash, blockNumber: '0x10', type: '0x6a', status: '0x1' },
      ...{ from: to, to, contractAddress: null, gasUsed: '0x5208', cumulativeGasUsed: '0x5208', effectiveGasPrice: '0x1', logs: [] },
    }
    const answer = async (...added: readonly JsonMembers[]) => {
      const names = ['one', 'two', 'three']
      const answers = Object.fromEntries(added.map((members, i) => [names[i]!, { result: { ...receipt, ...members } }]))
      const policy = added.length === 2 ? '2 of 2' : '2 of 3'
      const gateway = await openQuorum(answers, { policy, method: 'eth_getTransactionReceipt' })
      const { result, verified, error } = await gateway.call('eth_getTransactionReceipt', [hash])
      await gateway.stop()
      return verified === 'quorum' ? result : error?.code
    }
    const fee = { l1Fee: '0x2' }
    t.same(await answer(fee, { gasUsedForL1: '0x3' }), receipt, 'what one of them has is left out')
    t.same(await answer(fee, { l1Fee: '0x02', logsBloom: '0x00' }, { ...fee, l1BlobBaseFeeScalar: null }), { ...receipt, ...fee })
    t.same(await answer({ l1Fee: '0x9' }, fee, fee), { ...receipt, ...fee })
    t.same(await answer(fee, { l1Fee: '0x9' }), -32002)
    t.same(await answer(fee, { ...fee, status: null }), -32002, 'what each client writes is not left out')
    t.same(await answer(fee, { ...fee, status: '0x0' }), -32002)
  })

  t.test('is not for calls about the pending block, which each node builds for itself', async t => {
    const gateway = await openQuorum({ one: right, two: wrong, three: wrong })
    t.match(await gateway.call('eth_call', [{ to }, 'pending']), { result: '0x01', verified: 'none' })
    await gateway.stop()
  })
})

t.test('a quorum about blocks of a real chain', async t => {
  const chain = await startAnvilChain()
  t.teardown(() => chain.stop())
  await chain.request('anvil_mine', '0x5')
  const blocks = await Promise.all([3, 4, 5].map(number => chain.request<JsonMembers>('eth_getBlockByNumber', `0x${number}`, false)))
  /** A node with this newest block, which answers a call with the number of the block. */
  const nodeAt = (headOf: () => number): FakeUpstream => ({
    eth_blockNumber: () => value(`0x${headOf()}`),
    eth_getBlockByNumber: ({ params }) => {
      const [named] = params as [string]
      const head = headOf()
      const number = named === 'latest' ? head : Number(named)
      return { result: number > head ? null : (blocks.find(each => Number(each['number']) === number) ?? null) }
    },
    eth_call: ({ params }) => {
      const [, named] = params as [Json, string]
      const head = headOf()
      const number = named === 'latest' ? head : Number(named)
      return number > head ? { error: { code: -32000, message: 'header not found' } } : value(`0x0${number}`)
    },
  })

  t.test('is about the newest block, which nodes are waited for that lack it', async t => {
    const clock = new TestClock()
    const startedAt = clock.monotonic()
    const late = () => (clock.monotonic() - startedAt > 900 ? 5 : 4)
    const gateway = await openQuorum({ one: nodeAt(() => 5), two: nodeAt(late), three: nodeAt(() => 4) }, { clock })
    const reply = await gateway.call('eth_call', [{ to }, 'latest'])
    t.match(reply, { result: '0x05', verified: 'quorum' })
    await gateway.stop()
  })

  t.test('settles a difference by a proof, where there is one', async t => {
    const account = `0x${'12'.repeat(20)}`
    await chain.request('anvil_setBalance', account, '0x5')
    await chain.request('anvil_mine', '0x1')
    const block = await chain.request<JsonMembers>('eth_getBlockByNumber', 'latest', false)
    const proof = await chain.request<Json>('eth_getProof', account, [], block['number'])
    const node = (balance: string): FakeUpstream => ({
      eth_getBlockByNumber: { result: block },
      eth_getProof: { result: proof },
      eth_getBalance: value(balance),
    })
    const nodes = { one: node('0x1'), two: node('0x2'), three: node('0x5') }
    const gateway = await openQuorum(nodes, { method: 'eth_getBalance' })
    t.match(await gateway.call('eth_getBalance', [account, block['number']!]), { result: '0x5', verified: 'proof' })
    await gateway.stop()
  })
})

t.test('values that mean the same have the same canonical text, and others have not', async t => {
  const hex = fc.uint8Array({ maxLength: 6 }).map(bytes => `0x${Buffer.from(bytes).toString('hex')}`)
  const { json } = fc.letrec<{ json: Json }>(tie => ({
    json: fc.oneof(
      { maxDepth: 4 },
      hex,
      fc.boolean(),
      fc.constant('text'),
      fc.array(tie('json'), { maxLength: 3 }),
      fc.dictionary(fc.constantFrom('a', 'b', 'c', 'd'), tie('json')) as fc.Arbitrary<Json>,
    ),
  }))
  /** The same value, written in another way. */
  const rewritten = (value: Json): Json => {
    if (typeof value === 'string') return /^0x/.test(value) ? `0x${value.slice(2).toUpperCase()}` : value
    if (Array.isArray(value)) return (value as readonly Json[]).map(rewritten)
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries([
      ['missing', null],
      ...Object.entries(value)
        .toReversed()
        .map(([name, each]) => [name, rewritten(each)] as const),
    ])
  }
  fc.assert(
    fc.property(json, json, (one, other) => {
      t.equal(canonicalJson(rewritten(one)), canonicalJson(one))
      t.equal(canonicalJson(one) === canonicalJson(other), JSON.stringify(sorted(one)) === JSON.stringify(sorted(other)))
    }),
  )
})

/** Members in the order of their names. The values here have no null, and hex in lower case. */
function sorted(value: Json): Json {
  if (Array.isArray(value)) return (value as readonly Json[]).map(sorted)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .toSorted(([one], [other]) => one.localeCompare(other))
      .map(([name, each]) => [name, sorted(each)]),
  )
}

t.test('policies that cannot be met are problems of their line', async t => {
  const problemOf = async (verify: string, upstreams = '{ name: one, url: http://one.test }, { name: two, url: http://two.test }') => {
    const pipeline = `
- failover: { upstreams: [${upstreams}] }
- verify: ${verify}
- upstream: {}`
    return harness({ pipeline }).then(
      () => '',
      (error: Error) => error.message,
    )
  }
  const cases: readonly (readonly [verify: string, problem: RegExp, upstreams?: string])[] = [
    ['{ methods: { eth_call: 2 of 3 } }', /:3:\d+: verify: `2 of 3`, and the pipeline has 2 upstreams/],
    ['{ methods: { eth_call: 3 of 2 } }', /:3:\d+: verify: `3 of 2` asks fewer upstreams than must have the same answer/],
    ['{ methods: { eth_call: 1 of 2 } }', /:3:\d+: verify: `1 of 2` is no majority, so that two answers could have it: write `2 of 2`/],
    ['{ methods: { eth_call: two of three } }', /must be off, check, proof, or a quorum such as 2 of 3/],
    ['{ methods: { eth_sendRawTransaction: 2 of 2 } }', /:3:\d+: verify: eth_sendRawTransaction is for one upstream alone/],
    ['{ agree: 3 }', /:3:\d+: verify: 3 upstreams must agree, and the pipeline has 2 upstreams/],
    [
      '{ methods: { eth_getBalance: proof } }',
      /:3:\d+: verify: a proof needs eth_getProof, which no upstream has by its `methods`/,
      '{ name: one, url: http://one.test, methods: [eth_get*ance, eth_getBlock*, eth_blockNumber] }',
    ],
    [
      "{ methods: { '*': proof } }",
      /a proof needs eth_getBlockReceipts/,
      '{ name: one, url: http://one.test, methods: [eth_getProof, eth_getBlockBy*, eth_blockNumber] }',
    ],
  ]
  for (const [verify, problem, upstreams] of cases) t.match(await problemOf(verify, upstreams), problem, verify)
  t.equal(await problemOf("{ methods: { eth_call: 2 of 2, '*': 2 of 2 }, agree: 2 }"), '')
})
