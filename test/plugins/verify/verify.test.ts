import fc from 'fast-check'
import t from '../../support/tap.ts'
import { contractTests, harness } from '../../../src/testing/index.ts'
import verify from '../../../plugins/verify/index.ts'
import { senderOf } from '../../../plugins/verify/transaction-sender.ts'
import type { Json } from '../../../src/plugin/call.ts'
import { deployEmitter, emittedTopic, startAnvilChain } from '../../support/anvil-chain.ts'
import type { AnvilChain } from '../../support/anvil-chain.ts'
import { openVerify, readBlock } from './verify-fixture.ts'
import type { BlockAnswers, JsonMembers } from './verify-fixture.ts'

/** The same with one digit changed; a contract's creation gets a recipient. */
const change = (value: Json | undefined): Json => {
  if (typeof value === 'string' && value.length > 2) return `${value.slice(0, -1)}${value.endsWith('0') ? '1' : '0'}`
  if (value === '0x') return '0x00'
  return `0x${'1'.repeat(40)}`
}

/** A rule is not known to hold for earlier blocks: a number becomes greater. */
const withChanged = <Members extends JsonMembers>(object: Members, name: string): Members => ({
  ...object,
  [name]: /number$/i.test(name) ? '0xffff' : change(object[name]),
})

/** The list with the element at that place replaced. */
const withElement = <T>(list: readonly T[], i: number, replace: (element: T) => T): readonly T[] => list.with(i, replace(list[i]!))

const headerFields = [
  ...['hash', 'parentHash', 'sha3Uncles', 'miner', 'stateRoot', 'transactionsRoot', 'receiptsRoot', 'logsBloom', 'difficulty', 'number'],
  ...['gasLimit', 'gasUsed', 'timestamp', 'extraData', 'mixHash', 'nonce', 'baseFeePerGas', 'withdrawalsRoot', 'blobGasUsed'],
  ...['excessBlobGas', 'parentBeaconBlockRoot', 'requestsHash'],
]
const transactionFields = ['hash', 'nonce', 'gas', 'to', 'value', 'input', 'r', 's']
const fieldsOfTypes: Readonly<Record<string, readonly string[]>> = {
  '0x0': ['gasPrice', 'v'],
  '0x1': ['gasPrice', 'chainId', 'yParity'],
  '0x2': ['maxFeePerGas', 'maxPriorityFeePerGas', 'chainId', 'yParity'],
}
const positionFields = ['blockHash', 'blockNumber', 'transactionIndex']
const logFields = ['address', 'blockHash', 'blockNumber', 'transactionHash', 'transactionIndex', 'logIndex']

/** Every answer about the block with one field changed, and what was changed. */
const liesAbout = ({
  block,
  fullBlock,
  receipts,
}: BlockAnswers): { what: string; method: string; params: readonly Json[]; value: Json }[] => {
  const number = block['number']!
  const lies: { what: string; method: string; params: readonly Json[]; value: Json }[] = []
  for (const name of headerFields) {
    const what = `block: ${name}`
    lies.push({ what, method: 'eth_getBlockByNumber', params: [number, false], value: withChanged(block, name) })
    lies.push({ what, method: 'eth_getHeaderByNumber', params: [number], value: withChanged(block, name) })
  }
  fullBlock.transactions.forEach((transaction, i) => {
    const fields = [...transactionFields, ...(fieldsOfTypes[String(transaction['type'])] ?? [])]
    for (const name of fields) {
      const value = withChanged(transaction, name)
      lies.push({ what: `transaction: ${name}`, method: 'eth_getTransactionByHash', params: [transaction['hash']!], value })
    }
    for (const name of [...fields, ...positionFields]) {
      const transactions = withElement(fullBlock.transactions, i, each => withChanged(each, name))
      lies.push({
        what: `transaction of a block: ${name}`,
        method: 'eth_getBlockByNumber',
        params: [number, true],
        value: { ...fullBlock, transactions },
      })
    }
  })
  receipts.forEach((receipt, i) => {
    for (const name of [...positionFields, 'logsBloom']) {
      // Of an only receipt, the plugin `upstream` checks whether it is of the requested block.
      if (receipts.length === 1 && name.startsWith('block') && receipt.logs.length === 0) continue
      const value = withElement(receipts, i, each => withChanged(each, name))
      lies.push({ what: `receipt of a block: ${name}`, method: 'eth_getBlockReceipts', params: [number], value })
    }
    receipt.logs.forEach((_, j) => {
      for (const name of logFields) {
        const logs = withElement(receipt.logs, j, log => withChanged(log, name))
        const params = [receipt['transactionHash']!]
        // The index of an only log may be any.
        if (name !== 'logIndex' || receipt.logs.length > 1)
          lies.push({ what: `log of a receipt: ${name}`, method: 'eth_getTransactionReceipt', params, value: { ...receipt, logs } })
        lies.push({
          what: `log of the receipts of a block: ${name}`,
          method: 'eth_getBlockReceipts',
          params: [number],
          value: withElement(receipts, i, each => ({ ...each, logs })),
        })
      }
    })
  })
  return lies
}

const truthAbout = ({ block, fullBlock, receipts, logs }: BlockAnswers): { method: string; params: readonly Json[]; value: Json }[] => {
  const number = block['number']!
  return [
    { method: 'eth_getBlockByNumber', params: [number, false], value: block },
    { method: 'eth_getBlockByHash', params: [block['hash']!, true], value: fullBlock },
    { method: 'eth_getHeaderByNumber', params: [number], value: block },
    { method: 'eth_getBlockReceipts', params: [number], value: receipts },
    { method: 'eth_getLogs', params: [{ fromBlock: number, toBlock: number }], value: logs },
    ...fullBlock.transactions.map(value => ({ method: 'eth_getTransactionByHash', params: [value['hash']!], value })),
    ...receipts.map(value => ({ method: 'eth_getTransactionReceipt', params: [value['transactionHash']!], value })),
  ]
}

/** A transaction for eth_sendTransaction. */
const anyTransaction = (to: string, emitter: string) =>
  fc.oneof(
    fc.record({ type: fc.constantFrom('0x0', '0x1', '0x2'), value: fc.integer({ min: 0, max: 1 << 20 }) }).map(({ type, value }) => ({
      to,
      type,
      value: `0x${value.toString(16)}`,
      ...(type !== '0x2' && { gasPrice: '0x2540be400' }),
      ...(type === '0x1' && { accessList: [{ address: to, storageKeys: [`0x${'1'.padStart(64, '0')}`] }] }),
    })),
    fc
      .integer({ min: 0, max: 3 })
      .map(count => ({ to: emitter, gas: '0x30d40', data: `0x4ce4ddea${count.toString(16).padStart(64, '0')}` })),
    fc.uint8Array({ maxLength: 40 }).map(bytes => ({ gas: '0x30d40', data: `0x00${Buffer.from(bytes).toString('hex')}` })),
  )

/** The node drops a transaction that pays more than an earlier one of the same sender: each has another sender. */
const mine = async (chain: AnvilChain, transactions: readonly object[]): Promise<BlockAnswers> => {
  const accounts = await chain.request<string[]>('eth_accounts')
  for (const [i, transaction] of transactions.entries()) {
    await chain.request('eth_sendTransaction', { ...transaction, from: accounts[i % accounts.length] })
  }
  await chain.request('evm_mine')
  return readBlock(chain, 'latest')
}

t.test('answers of a real node', async t => {
  const chain = await startAnvilChain()
  t.teardown(() => chain.stop())
  const [to = ''] = await chain.request<string[]>('eth_accounts')
  const emitter = await deployEmitter(chain)
  await chain.request('evm_setAutomine', false)
  const emit = (count: number) => ({ to: emitter.address, gas: '0x30d40', data: `0x4ce4ddea${count.toString(16).padStart(64, '0')}` })
  const pay = { to, value: '0x1' }
  // Two transactions with logs, and one of each type: what teaches each rule.
  const taught = await mine(chain, [
    emit(2),
    emit(1),
    ...['0x0', '0x1'].map(type => ({ ...pay, type, gasPrice: '0x2540be400' })),
    { gas: '0x30d40', data: '0x00' },
  ])

  t.equal(taught.receipts.length, 5)
  t.test('are accepted, whatever is in the block; and with one field changed refused', async t => {
    for (const chainId of [1, 31_337]) {
      const plugin = openVerify({ chainId })
      for (const { method, params, value } of truthAbout(taught)) t.ok(await plugin.accepts(method, params, value), `${chainId} ${method}`)
      await fc.assert(
        fc.asyncProperty(fc.array(anyTransaction(to, emitter.address), { maxLength: 5 }), async transactions => {
          const answers = await mine(chain, transactions)
          for (const { method, params, value } of truthAbout(answers)) t.ok(await plugin.accepts(method, params, value), method)
          for (const { what, method, params, value } of liesAbout(answers)) {
            t.notOk(await plugin.accepts(method, params, value), `${chainId} ${what} ${JSON.stringify(value)}`)
            // The truth keeps the rule in force.
            for (const truth of truthAbout(answers)) await plugin.accepts(truth.method, truth.params, truth.value)
          }
        }),
        { numRuns: 4 },
      )
    }
  })

  t.test('a block of 150 transactions has the root of them', async t => {
    const answers = await mine(chain, Array(150).fill(pay))
    const plugin = openVerify({ chainId: 1 })
    const params = [answers.block['number']!, true]
    t.ok(await plugin.accepts('eth_getBlockByNumber', params, answers.fullBlock))
    const missing = { ...answers.fullBlock, transactions: answers.fullBlock.transactions.slice(0, -1) }
    t.notOk(await plugin.accepts('eth_getBlockByNumber', params, missing))
  })

  t.test('logs that are not what was asked for, or are out of order, are refused', async t => {
    const second = await mine(chain, [emit(2), emit(2)])
    const [one, two] = [taught.block['number']!, second.block['number']!]
    const logs = [...taught.logs, ...second.logs]
    const range = { fromBlock: one, toBlock: two }
    const plugin = openVerify()
    const accepts = (value: Json, filter: JsonMembers = {}) => plugin.accepts('eth_getLogs', [{ ...range, ...filter }], value)
    const topic = (n: number) => `0x${n.toString(16).padStart(64, '0')}`
    t.ok(await accepts(logs))
    t.ok(await accepts(logs, { topics: [emittedTopic] }))
    t.ok(await accepts(logs, { topics: [[emittedTopic.toUpperCase().replace('0X', '0x'), topic(9)], null] }))
    t.ok(await accepts(logs, { topics: [[], [topic(0), null]] }))
    const ofZero = logs.filter(({ topics }) => JSON.stringify(topics).includes(topic(0)))
    t.ok(await accepts(ofZero, { topics: [null, topic(0)] }))
    const lies: Readonly<Record<string, readonly [Json, JsonMembers?]>> = {
      'a log of another topic': [logs, { topics: [null, topic(0)] }],
      'a log of no topic': [[...ofZero, { ...ofZero[0]!, topics: [] }], { topics: [null, topic(0)] }],
      'logs in another order': [logs.toReversed()],
      'a log twice': [[logs[0]!, ...logs]],
      'a log of another branch': [withElement(logs, 1, log => withChanged(log, 'blockHash'))],
      'the first log of a block missing': [logs.slice(1)],
      'a log within a block missing': [logs.toSpliced(1, 1)],
    }
    for (const [what, [value, filter]] of Object.entries(lies)) {
      t.ok(await accepts(logs), 'the truth')
      t.notOk(await accepts(value, filter), what)
    }
  })

  t.test('receipts of a block that are missing between others, or exchanged, are refused', async t => {
    const { receipts, block } = taught
    const plugin = openVerify()
    const accepts = (value: Json) => plugin.accepts('eth_getBlockReceipts', [block['number']!], value)
    t.ok(await accepts(receipts))
    t.notOk(await accepts(receipts.toSpliced(1, 1)))
    t.ok(await accepts(receipts))
    t.notOk(await accepts(receipts.toReversed()))
    t.ok(await accepts([]))
  })

  t.test('logs of a block whose indexes leave one out between two receipts are refused', async t => {
    const { receipts, block } = taught
    const plugin = openVerify()
    const accepts = (value: Json) => plugin.accepts('eth_getBlockReceipts', [block['number']!], value)
    const last = receipts.findLastIndex(({ logs }) => logs.length > 0)
    t.ok(last > receipts.findIndex(({ logs }) => logs.length > 0), 'two receipts have logs')
    const next = (log: JsonMembers) => ({ ...log, logIndex: `0x${(Number(log['logIndex']) + 1).toString(16)}` })
    t.ok(await accepts(receipts))
    t.notOk(await accepts(withElement(receipts, last, receipt => ({ ...receipt, logs: receipt.logs.map(next) }))))
  })

  t.test('a transaction at another position than the requested one is refused', async t => {
    const accepts = (position: string) =>
      openVerify().accepts('eth_getTransactionByBlockNumberAndIndex', ['latest', position], taught.fullBlock.transactions[1]!)
    t.ok(await accepts('0x1'))
    t.notOk(await accepts('0x0'))
  })

  t.test('on a chain that is not known, a rule refuses nothing before it has held', async t => {
    const plugin = openVerify()
    const params = [taught.block['number']!, false]
    const wrong = withChanged(taught.block, 'stateRoot')
    t.ok(await plugin.accepts('eth_getBlockByNumber', params, wrong), 'the chain may hash its headers differently')
    t.ok(await plugin.accepts('eth_getBlockByNumber', params, taught.block))
    t.notOk(await plugin.accepts('eth_getBlockByNumber', params, wrong), 'it does not')
    const earlier = { ...wrong, number: '0x0' }
    t.ok(await plugin.accepts('eth_getBlockByNumber', ['0x0', false], earlier), 'it may have done so before')
    const other = { ...wrong, l1BlockNumber: '0x1' }
    t.ok(await plugin.accepts('eth_getBlockByNumber', params, other), 'a header with other fields is another rule')
  })

  t.test('Ethereum has its rules from the first answer on', async t => {
    const accepts = (value: Json, plugin = openVerify({ chainId: 1 })) => plugin.accepts('eth_getBlockByNumber', ['latest', false], value)
    t.notOk(await accepts(withChanged(taught.block, 'stateRoot')))
    t.notOk(await accepts({ ...taught.block, mixHash: undefined } as unknown as Json))
    t.ok(await accepts({ ...withChanged(taught.block, 'stateRoot'), fieldOfANewFork: '0x1' }), 'a fork that is not known here')
    const transaction = taught.fullBlock.transactions[0]!
    const lie = { ...transaction, r: '0x1', s: '0x1' }
    t.notOk(await openVerify({ chainId: 1 }).accepts('eth_getTransactionByHash', [transaction['hash']!], lie))
    t.ok(
      await openVerify().accepts('eth_getTransactionByHash', [transaction['hash']!], lie),
      'others have transactions without a signature',
    )
  })

  t.test('a rule that two nodes break, and none keeps, is given up for good', async t => {
    const plugin = openVerify()
    const answer = (value: Json, upstream: string) => plugin.accepts('eth_getBlockByNumber', ['latest', false], value, upstream)
    const wrong = withChanged(taught.block, 'stateRoot')
    t.ok(await answer(taught.block, 'own'))
    t.notOk(await answer(wrong, 'own'))
    t.ok(await answer(taught.block, 'second'), 'another node keeps it')
    t.notOk(await answer(wrong, 'own'))
    t.ok(await answer(wrong, 'second'))
    t.ok(await answer(taught.block, 'own'))
    t.ok(await answer(wrong, 'own'))
    t.match(
      plugin.log.lines.filter(({ message }) => message.startsWith('rule given up')),
      [{ fields: { rule: /^the hash of a block/ } }],
    )
  })

  t.test('one node alone gives a rule up after 20 answers in a row', async t => {
    const plugin = openVerify()
    const answer = (value: Json) => plugin.accepts('eth_getBlockByNumber', ['latest', false], value)
    const wrong = withChanged(taught.block, 'stateRoot')
    t.ok(await answer(taught.block))
    for (let i = 0; i < 19; i++) t.notOk(await answer(wrong))
    t.ok(await answer(wrong))
  })

  t.test('pending answers, long ones and methods with the policy off are not checked', async t => {
    const wrong = withChanged(taught.block, 'stateRoot')
    t.ok(await openVerify({ chainId: 1 }).accepts('eth_getBlockByNumber', ['pending', false], wrong))
    t.ok(await openVerify({ chainId: 1, options: { maxBytes: 100 } }).accepts('eth_getBlockByNumber', ['latest', false], wrong))
    const off = openVerify({ chainId: 1, options: { methods: { eth_getBlockByNumber: 'check', 'eth_getBlock*': 'off' } } })
    t.ok(await off.accepts('eth_getBlockByHash', [taught.block['hash']!, false], wrong))
    t.notOk(await off.accepts('eth_getBlockByNumber', ['latest', false], wrong))
  })

  t.test('the caller gets the answer of another node, and the log and a metric blame the one that was wrong', async t => {
    const gateway = await harness({
      network: { chainId: 1 },
      pipeline: `
- failover: { upstreams: [{ name: liar, url: http://liar.test }, { name: honest, url: http://honest.test }] }
- verify: {}
- upstream: {}`,
      upstreams: {
        liar: { eth_getBlockByHash: { result: withChanged(taught.block, 'stateRoot') } },
        honest: { eth_getBlockByHash: { result: taught.block } },
      },
    })
    const { result } = await gateway.call('eth_getBlockByHash', [taught.block['hash']!, false])
    t.same(result, taught.block)
    t.match(
      gateway.log.lines.filter(({ message }) => message === 'upstream returned a wrong result'),
      [
        {
          fields: {
            upstream: 'liar',
            method: 'eth_getBlockByHash',
            cause: /^wrong result: not so: the hash of a block is that of its header/,
          },
        },
      ],
    )
    t.equal(gateway.metric('tollgate_verified_results_total', { upstream: 'liar', outcome: 'refused' }), 1)
    t.equal(gateway.metric('tollgate_verified_results_total', { upstream: 'honest', outcome: 'passed' }), 1)
    await gateway.stop()
  })

  t.test('a result says what it was verified by, also when it comes from the cache', async t => {
    const gateway = await harness({
      network: { chainId: 1 },
      pipeline: `
- cache: {}
- failover: { upstreams: [{ name: own, url: http://own.test }] }
- verify: { methods: { eth_getBlockByNumber: 'off', eth_getBlockReceipts: proof, 'eth_getTransaction*': proof } }
- upstream: {}`,
      upstreams: {
        own: {
          eth_getBlockByHash: ({ params }) => ({ result: (params as readonly Json[])[1] === true ? taught.fullBlock : taught.block }),
          eth_getBlockByNumber: { result: taught.block },
          eth_getBlockReceipts: { result: taught.receipts },
          eth_getTransactionByHash: { result: null },
          eth_gasPrice: { result: '0x1' },
        },
      },
    })
    await senderOf({}) // loads what takes real time: no answer is cached meanwhile
    const [hash, number] = [taught.block['hash']!, taught.block['number']!]
    const transaction = `0x${'12'.repeat(32)}`
    for (const [method, params, verified] of [
      ['eth_getBlockByHash', [hash, false], 'check'],
      ['eth_getBlockByNumber', [number, false], 'none'],
      ['eth_getBlockReceipts', [hash], 'proof'],
      ['eth_gasPrice', [], 'none'],
    ] as const) {
      t.match(await gateway.call(method, params), { cache: 'miss', verified }, method)
      t.match(await gateway.call(method, params), { cache: 'hit', verified }, method)
    }
    t.match(await gateway.call('eth_getTransactionByHash', [transaction]), { result: null, verified: 'none' }, 'only one node says so')
    await gateway.stop()
  })

  t.test('where no node is right, the caller is not told who said what', async t => {
    const gateway = await harness({
      network: { chainId: 1 },
      pipeline: '- verify: {}',
      upstream: { eth_getBlockByHash: { result: withChanged(taught.block, 'stateRoot') } },
    })
    const { error } = await gateway.call('eth_getBlockByHash', [taught.block['hash']!, false])
    t.match(error, { code: -32002 })
    t.notMatch(JSON.stringify(error), /wrong|hash/)
    await gateway.stop()
  })
})

for (const { name, run } of contractTests(verify, { options: {} })) t.test(name, run)
