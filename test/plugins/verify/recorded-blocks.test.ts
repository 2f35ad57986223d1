import t from '../../support/tap.ts'
import { headerHashOf } from '../../../plugins/verify/block-header.ts'
import { receiptsRootOf } from '../../../plugins/verify/receipts-root.ts'
import { encodeTransaction } from '../../../plugins/verify/transaction-encoding.ts'
import { trieRootOf } from '../../../plugins/verify/trie-root.ts'
import type { Json } from '../../../src/plugin/call.ts'
import { earlierAnswers, officialChainId } from './official-chain.ts'
import { openProofs } from './proof-fixture.ts'
import type { Node } from './proof-fixture.ts'
import { arbitrumBlocks, arbitrumClassicBlock, opGoerliBlock, sepoliaHeader, unichainBlock } from './recorded-blocks.ts'
import { openVerify } from './verify-fixture.ts'
import type { JsonMembers } from './verify-fixture.ts'

const unichain = { chainId: 1_301, ...unichainBlock() }
const arbitrumChainId = 42_161

/** A node that has this block alone. */
const nodeWith =
  (block: JsonMembers, receipts: readonly JsonMembers[]): Node =>
  async ({ method, params: [, isWhole] }) => {
    const transactions = (block['transactions'] as readonly JsonMembers[]).map(each => (isWhole === true ? each : each['hash']!))
    if (method === 'eth_getBlockByNumber' || method === 'eth_getBlockByHash') return { ...block, transactions }
    if (method === 'eth_getBlockReceipts') return receipts
    const [receipt] = receipts
    return method === 'eth_getTransactionReceipt' ? receipt : undefined
  }

t.test('a block of the OP stack', async t => {
  const { chainId, block, fullBlock, receipts, logs } = unichain
  const [hash, number] = [block['hash']!, block['number']!]
  const honest = nodeWith(fullBlock, receipts)

  t.test('has the hash, and the roots of its transactions and receipts, as on Ethereum', async t => {
    t.equal(headerHashOf(block), hash)
    t.equal(`0x${Buffer.from(trieRootOf(fullBlock.transactions.map(encodeTransaction))).toString('hex')}`, block['transactionsRoot'])
    t.equal(receiptsRootOf(receipts), block['receiptsRoot'])
  })

  t.test('is accepted by check, and a change of it is not', async t => {
    const gateway = openVerify({ chainId })
    const answers: readonly (readonly [method: string, params: readonly Json[], value: Json])[] = [
      ['eth_getBlockByNumber', [number, false], block],
      ['eth_getBlockByHash', [hash, true], fullBlock],
      ['eth_getBlockReceipts', [number], receipts],
      ['eth_getLogs', [{ blockHash: hash }], logs],
      ...fullBlock.transactions.map(each => ['eth_getTransactionByHash', [each['hash']!], each] as const),
      ...receipts.map(each => ['eth_getTransactionReceipt', [(each as JsonMembers)['transactionHash']!], each] as const),
    ]
    for (const node of ['one', 'two'])
      for (const [method, params, value] of answers) t.ok(await gateway.accepts(method, params, value, node), `${method} of ${node}`)
    t.same(gateway.log.lines, [])
    t.notOk(await gateway.accepts('eth_getBlockByNumber', [number, false], { ...block, timestamp: '0x690be89f' }))
    const [deposit] = fullBlock.transactions
    t.notOk(await gateway.accepts('eth_getTransactionByHash', [deposit!['hash']!], { ...deposit!, mint: '0x1' }))
  })

  t.test('is proven, with its deposit and all its logs', async t => {
    const { call, log } = openProofs({ one: honest, two: honest }, { chainId, head: () => Number(number) })
    t.same(await call('eth_getBlockByNumber', number, true), fullBlock)
    t.same(await call('eth_getBlockReceipts', number), receipts)
    t.same(await call('eth_getTransactionReceipt', receipts[0]!['transactionHash']!), receipts[0])
    t.same(await call('eth_getLogs', { fromBlock: number, toBlock: number }), logs)
    t.same(log.lines, [])
  })

  t.test('a receipt without its log, and a deposit of another amount, are found', async t => {
    const options = { chainId, head: () => Number(number) }
    const withoutLog = nodeWith(fullBlock, receipts.with(5, { ...receipts[5]!, logs: [], logsBloom: receipts[0]!['logsBloom']! }))
    const missing = openProofs({ one: withoutLog, two: honest }, { ...options, hasFailover: true })
    t.same(await missing.call('eth_getLogs', { fromBlock: number, toBlock: number }), logs)
    t.match(missing.log.lines, [
      {},
      { message: 'upstream returned a wrong result' },
      { fields: { event: 'upstream-lied', upstream: 'one' } },
    ])
    const [deposit, ...others] = fullBlock.transactions
    const minted = openProofs(
      { one: nodeWith({ ...fullBlock, transactions: [{ ...deposit!, mint: '0x1' }, ...others] }, receipts), two: honest },
      options,
    )
    t.equal(await minted.call('eth_getBlockByNumber', number, true), undefined)
  })

  t.test('a node that changes from the start what no root covers is not believed, unless most nodes have it so', async t => {
    const options = { chainId, head: () => Number(number), hasFailover: true }
    const from = `0x${'9'.repeat(40)}`
    const transactions = fullBlock.transactions.map((each, i): JsonMembers => (i === 0 ? each : { ...each, from }))
    const lying = nodeWith(
      { ...fullBlock, transactions },
      receipts.map((each): JsonMembers => ({ ...each, gasUsed: '0x1' })),
    )
    const one = openProofs({ one: lying, two: honest, three: honest }, options)
    t.same(await one.call('eth_getBlockByNumber', number, true), fullBlock)
    t.same(await one.call('eth_getBlockReceipts', number), receipts)
    t.notOk(one.log.lines.some(({ fields }) => JSON.stringify(fields).includes('upstream-lied')))
    const alone = openProofs({ one: lying, two: lying, three: honest }, options)
    t.match(await alone.call('eth_getBlockByNumber', number, true), { transactions }, 'a rule of the chain')
  })

  t.test('a deposit has no signature, and costs nothing', async t => {
    const [deposit, ...others] = fullBlock.transactions
    const options = { chainId, head: () => Number(number), hasFailover: true }
    const open = (members: JsonMembers, price = '0x0') =>
      openProofs(
        {
          one: nodeWith(
            { ...fullBlock, transactions: [{ ...deposit!, ...members }, ...others] },
            receipts.map((each, i): JsonMembers => (i === 0 ? { ...each, effectiveGasPrice: price } : each)),
          ),
          two: honest,
        },
        options,
      )
    const { v: _, ...withoutV } = deposit as JsonMembers
    t.same(await open({ v: '0x1' }).call('eth_getBlockByNumber', number, true), { ...fullBlock, transactions: [withoutV, ...others] })
    t.same(await open({ gasPrice: '0x1' }).call('eth_getBlockByNumber', number, true), fullBlock)
    t.same(await open({}, '0x1').call('eth_getBlockReceipts', number), receipts)
  })

  // ethereum-optimism/op-geth, issue 708
  t.test('since Jovian, a receipt has a blob gas that is not of blobs', async t => {
    const footprints = receipts.map((each): JsonMembers => ({ ...each, blobGasUsed: '0x9c40', daFootprintGasScalar: '0x190' }))
    const node = nodeWith(fullBlock, footprints)
    const { call, log } = openProofs({ one: node, two: node, three: node }, { chainId, head: () => Number(number), hasFailover: true })
    t.same(await call('eth_getBlockReceipts', number), footprints)
    t.same(log.lines, [])
  })

  t.test('a deposit with members of a network of its own is no lie, and nothing is proven of its block', async t => {
    const [deposit, ...others] = fullBlock.transactions
    const node = nodeWith({ ...fullBlock, transactions: [{ ...deposit!, ethValue: '0x0' }, ...others] }, receipts)
    const { call, log } = openProofs({ one: node, two: honest }, { chainId, head: () => Number(number) })
    t.equal(await call('eth_getBlockReceipts', number), undefined)
    t.same(log.lines, [])
  })
})

t.test('a block of the OP stack before Canyon', async t => {
  const { block, fullBlock, receipts } = opGoerliBlock()
  const chainId = 420
  const [hash, number] = [block['hash']!, block['number']!]
  const options = { chainId, head: () => Number(number) }
  const open = (given: readonly JsonMembers[]) =>
    openProofs({ one: nodeWith(fullBlock, given), two: nodeWith(fullBlock, receipts) }, options)

  t.test('is proven, although the nonce of its deposit is not in the root', async t => {
    const { call, log } = open(receipts)
    t.same(await call('eth_getBlockByNumber', number, true), fullBlock)
    t.same(await call('eth_getBlockReceipts', number), receipts)
    t.same(await call('eth_getTransactionReceipt', receipts[0]!['transactionHash']!), receipts[0])
    const beforeRegolith = receipts.map(({ depositNonce: _, ...receipt }) => receipt as JsonMembers)
    t.same(await open(beforeRegolith).call('eth_getBlockReceipts', number), beforeRegolith)
    t.same(log.lines, [])
  })

  t.test('and a receipt of another status is found', async t => {
    const nodes = { one: nodeWith(fullBlock, [{ ...receipts[0]!, status: '0x0' }]), two: nodeWith(fullBlock, receipts) }
    const { call, log } = openProofs(nodes, { ...options, hasFailover: true })
    t.same(await call('eth_getBlockReceipts', number), receipts)
    t.match(log.lines[1], { message: 'upstream returned a wrong result' })
    const gateway = openVerify({ chainId })
    t.ok(await gateway.accepts('eth_getBlockByHash', [hash, true], fullBlock))
    t.ok(await gateway.accepts('eth_getBlockReceipts', [number], receipts))
  })

  t.test('a deposit whose version does not go with the fork of the block is no lie, and proves nothing', async t => {
    const withVersion = open([{ ...receipts[0]!, depositReceiptVersion: '0x1' }])
    t.equal(await withVersion.call('eth_getBlockReceipts', number), undefined)
    const [first, ...others] = unichain.receipts
    const { depositReceiptVersion: _, ...deposit } = first as JsonMembers
    const sinceCanyon = openProofs(
      { one: nodeWith(unichain.fullBlock, [deposit, ...others]), two: nodeWith(unichain.fullBlock, unichain.receipts) },
      { chainId: unichain.chainId, head: () => Number(unichain.block['number']) },
    )
    t.equal(await sinceCanyon.call('eth_getBlockReceipts', unichain.block['number']!), undefined)
    t.same([...withVersion.log.lines, ...sinceCanyon.log.lines], [])
  })
})

t.test(
  'a block of Arbitrum before Nitro has the hash of the fields of Ethereum alone: nothing else is proven, and no node is blamed',
  async t => {
    const { fullBlock, receipts } = arbitrumClassicBlock()
    t.equal(headerHashOf(fullBlock), fullBlock['hash'])
    const node: Node = async request =>
      request.method === 'eth_getProof' ? { accountProof: [], storageProof: [] } : nodeWith(fullBlock, receipts)(request)
    const number = fullBlock['number']!
    const { call, log } = openProofs({ one: node, two: node }, { chainId: arbitrumChainId, head: () => Number(number) })
    t.equal(await call('eth_getBlockByNumber', number, true), undefined)
    t.equal(await call('eth_getBlockReceipts', number), undefined)
    t.equal(await call('eth_getBalance', receipts[0]!['from']!, number), undefined)
    t.same(log.lines, [])
  },
)

t.test('blocks of Arbitrum have the hash of the fields of Ethereum, and are accepted by check', async t => {
  const gateway = openVerify({ chainId: arbitrumChainId })
  for (const block of arbitrumBlocks) {
    t.equal(headerHashOf(block), block['hash'])
    t.ok(await gateway.accepts('eth_getBlockByNumber', [block['number']!, false], block))
    t.notOk(await gateway.accepts('eth_getBlockByNumber', [block['number']!, false], { ...block, gasUsed: '0x1' }))
  }
  t.equal(gateway.log.lines.length, arbitrumBlocks.length)
})

t.test('blocks of test chains, with transactions of types 0 to 3, requests and a withdrawal', async t => {
  const blocks = earlierAnswers.filter(({ method }) => method === 'eth_getBlockByNumber').map(({ result }) => result as JsonMembers) // blocks
  const receipts = earlierAnswers.find(({ method }) => method === 'eth_getBlockReceipts')!.result as readonly JsonMembers[]

  t.test('are accepted by check from the first one on, and no change of a member that a hash covers is', async t => {
    for (const block of blocks) {
      const [params, gateway] = [[block['number']!, true], openVerify({ chainId: 1 })]
      t.ok(await gateway.accepts('eth_getBlockByNumber', params, block))
      const [first, ...others] = block['transactions'] as readonly JsonMembers[]
      for (const change of [
        { stateRoot: block['receiptsRoot']! },
        { timestamp: '0x1' },
        { transactions: others },
        { transactions: [{ ...first, value: '0x9' }, ...others] },
      ])
        t.notOk(await gateway.accepts('eth_getBlockByNumber', params, { ...block, ...change }), JSON.stringify(change).slice(0, 80))
    }
  })

  t.test('are proven with their senders, and the receipts of one', async t => {
    for (const block of blocks) {
      const number = block['number']!
      const hasReceipts = number === receipts[0]!['blockNumber']
      const node = nodeWith(block, receipts)
      const { call, log } = openProofs({ one: node, two: node }, { chainId: officialChainId, head: () => Number(number) })
      t.same(await call('eth_getBlockByNumber', number, true), block)
      if (hasReceipts) t.same(await call('eth_getBlockReceipts', number), receipts)
      t.same(log.lines, [])
    }
  })
})

t.test('a header of Ethereum since Glamsterdam is checked from the first one on, and proves that a block has no such log', async t => {
  const chainId = 11_155_111
  const { number, hash } = sepoliaHeader
  const gateway = openVerify({ chainId })
  t.notOk(await gateway.accepts('eth_getBlockByNumber', [number!, false], { ...sepoliaHeader, slotNumber: '0xac6001' }))
  t.ok(await gateway.accepts('eth_getBlockByNumber', [number!, false], sepoliaHeader))
  const node: Node = async ({ method }) => (method.startsWith('eth_getBlockBy') ? sepoliaHeader : undefined)
  const { call } = openProofs({ one: node, two: node }, { chainId, head: () => Number(number) })
  const query = { address: `0x${'1'.repeat(40)}`, topics: [`0x${'2'.repeat(64)}`] }
  t.same(await call('eth_getLogs', { fromBlock: number!, toBlock: number!, ...query }), [])
  t.same(await call('eth_getLogs', { blockHash: hash!, ...query }), [])
})

t.test('upstreams whose headers do not hash as those of Ethereum are named in the log, once', async t => {
  const foreign = nodeWith({ ...unichain.fullBlock, extDataHash: '0x01', hash: `0x${'1'.repeat(64)}` }, [])
  const { call, log } = openProofs({ one: foreign, two: foreign }, { chainId: 5, head: () => Number(unichain.block['number']) })
  for (let i = 0; i < 2; i++) t.equal(await call('eth_getBlockByNumber', unichain.block['number']!, false), undefined)
  t.match(log.lines, [{ message: /^headers of upstreams do not hash/ }])
  t.equal(log.lines.length, 1)
})
