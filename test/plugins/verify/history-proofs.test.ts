import t from '../../support/tap.ts'
import { headerHashOf } from '../../../plugins/verify/block-header.ts'
import { logsBloomOf } from '../../../plugins/verify/logs-bloom.ts'
import type { Json, Request } from '../../../src/plugin/call.ts'
import { toHexQuantity } from '../../../src/util/json.ts'
import { deployEmitter, startAnvilChain } from '../../support/anvil-chain.ts'
import { openProofs } from './proof-fixture.ts'
import type { Node } from './proof-fixture.ts'
import { readBlock } from './verify-fixture.ts'
import type { JsonMembers } from './verify-fixture.ts'

/** What a node says in place of its answers, by method. */
type Lie = Readonly<Record<string, (value: Json, request: Request) => Json | Promise<Json>>>

/** A method and its parameters. */
type Question = readonly [string, ...Json[]]

t.test('blocks, transactions and receipts of a real node', async t => {
  const chain = await startAnvilChain()
  t.teardown(() => chain.stop())
  const emitter = await deployEmitter(chain)
  const accounts = await chain.request<string[]>('eth_accounts')
  const [to = ''] = accounts
  await emitter.emitLogs(2)
  await chain.request('anvil_mine', '0x1')
  await chain.request('evm_setAutomine', false)
  const emit = (count: number) => ({ to: emitter.address, gas: '0x30d40', data: `0x4ce4ddea${toWord(count).slice(2)}` })
  const transactions = [
    emit(2),
    emit(0),
    { to, value: '0x1', type: '0x0', gasPrice: '0x77359400' },
    { to, value: '0x2', type: '0x1', gasPrice: '0x77359400', accessList: [{ address: to, storageKeys: [toWord(1)] }] },
    { gas: '0x30d40', data: '0x00' },
    emit(1),
  ]
  for (const [i, transaction] of transactions.entries()) await chain.request('eth_sendTransaction', { ...transaction, from: accounts[i]! })
  await chain.request('anvil_mine', '0x1')
  const head = Number(await chain.request<string>('eth_blockNumber'))
  const last = toHexQuantity(head)
  const { fullBlock, receipts } = await readBlock(chain, last)
  t.equal(receipts.length, transactions.length)
  const hash = fullBlock['hash']!
  const pending = await chain.request<string>('eth_sendTransaction', { ...emit(1), from: accounts[0]! })

  const honest: Node = ({ method, params }) => chain.request<Json>(method, ...params)
  const lying =
    (lie: Lie): Node =>
    async request => {
      const change = lie[request.method]
      return change === undefined ? honest(request) : change((await honest(request))!, request)
    }
  const known = { head: () => head }

  const named = ['latest', last, toHexQuantity(head - 1), '0x1']
  const hashes = await Promise.all(named.map(async block => (await readBlock(chain, block)).block['hash']!))
  const mined = fullBlock.transactions.map(each => each['hash']!)
  const questions: readonly Question[] = [
    ...[false, true].flatMap(isWhole => [
      ...named.map(block => ['eth_getBlockByNumber', block, isWhole] as const),
      ...hashes.map(block => ['eth_getBlockByHash', block, isWhole] as const),
    ]),
    ...[...named, hash, { blockHash: hash }].map(block => ['eth_getBlockReceipts', block] as const),
    ...['0x0', '0x4', '0x5', '0x99'].flatMap(position => [
      ['eth_getTransactionByBlockNumberAndIndex', last, position] as const,
      ['eth_getTransactionByBlockHashAndIndex', hash, position] as const,
    ]),
    ...mined.flatMap(each => [['eth_getTransactionByHash', each] as const, ['eth_getTransactionReceipt', each] as const]),
  ]

  t.test('are what the node says', async t => {
    for (const chainId of [1, 31_337]) {
      const { call, log } = openProofs({ one: honest, two: honest }, { ...known, chainId })
      for (const [method, ...params] of questions)
        t.same(await call(method, ...params), await chain.request(method, ...params), `${chainId} ${method} ${JSON.stringify(params)}`)
      t.same(log.lines, [])
    }
  })

  t.test('are requested once for all of a block', async t => {
    const gateway = openProofs({ one: honest, two: honest }, known)
    const sent = () => gateway.requests.splice(0).filter(each => !each.endsWith('eth_getTransactionReceipt'))
    await Promise.all(mined.map(each => gateway.call('eth_getTransactionReceipt', each)))
    t.same(sent().toSorted(), [
      'one eth_getBlockByHash',
      'one eth_getBlockByNumber',
      'one eth_getBlockReceipts',
      'two eth_getBlockByNumber',
    ])
    await gateway.call('eth_getBlockReceipts', hash)
    await gateway.call('eth_getBlockByNumber', last, true)
    await gateway.call('eth_getLogs', { fromBlock: last, toBlock: last })
    t.same(sent(), [])
  })

  t.test('a caller who leaves does not end the request of the others', async t => {
    const gateway = openProofs({ one: honest, two: honest }, known)
    const leaving = gateway.callThatLeaves('eth_getBlockReceipts', hash)
    const staying = gateway.call('eth_getBlockReceipts', hash)
    await leaving
    t.same(await staying, receipts)
  })

  const list = (value: Json) => value as readonly JsonMembers[]
  const members = (value: Json) => value as JsonMembers
  const inReceipts = (change: (receipt: JsonMembers, i: number) => JsonMembers) => ({
    eth_getBlockReceipts: (value: Json) => list(value).map(change),
  })
  const inTransactions = (change: (transaction: JsonMembers, i: number) => JsonMembers) => ({
    eth_getBlockByHash: (value: Json) => ({ ...members(value), transactions: list(members(value)['transactions']!).map(change) }),
  })
  const inBlock = (change: JsonMembers) => ({ eth_getBlockByHash: (value: Json) => ({ ...members(value), ...change }) })
  const withoutLogs = { logs: [], logsBloom: logsBloomOf([]) }
  const receiptLies: Readonly<Record<string, Lie>> = {
    'a receipt without its logs': inReceipts(each => ({ ...each, ...withoutLogs })),
    'a receipt that succeeded': inReceipts(each => ({ ...each, status: each['status'] === '0x1' ? '0x0' : '0x1' })),
    'a receipt with other gas': inReceipts(each => ({ ...each, gasUsed: '0x1' })),
    'a receipt at another price': inReceipts(each => ({ ...each, effectiveGasPrice: '0x1' })),
    'a receipt of another sender': inReceipts(each => ({ ...each, from: to.replace(/..$/, '00') })),
    'a receipt of another recipient': inReceipts(each => ({ ...each, to: `0x${'12'.repeat(20)}` })),
    'a receipt of another contract': inReceipts(each => ({ ...each, contractAddress: `0x${'12'.repeat(20)}` })),
    'a receipt of another type': inReceipts(each => ({ ...each, type: each['type'] === '0x0' ? '0x1' : '0x0' })),
    'the receipt of another transaction': inReceipts((each, i) => ({ ...each, transactionHash: mined[(i + 1) % mined.length]! })),
    'a receipt of another block': inReceipts(each => ({ ...each, blockHash: toWord(1) })),
    'a log of another time': inReceipts(each => ({
      ...each,
      logs: list(each['logs']!).map(log => ({ ...log, blockTimestamp: '0x1' })),
    })),
    'a log that is removed': inReceipts(each => ({ ...each, logs: list(each['logs']!).map(log => ({ ...log, removed: true })) })),
  }
  const blockLies: Readonly<Record<string, Lie>> = {
    'a transaction of another value': inTransactions(each => ({ ...each, value: '0x99' })),
    'a transaction with another hash': inTransactions(each => ({ ...each, hash: toWord(1) })),
    'a transaction at another position': inTransactions(each => ({ ...each, transactionIndex: '0x7' })),
    'a transaction of another block': inTransactions(each => ({ ...each, blockHash: toWord(1) })),
    'a transaction at another price': inTransactions(each => ({ ...each, gasPrice: '0x1' })),
    'no transactions': inBlock({ transactions: [] }),
    'another state root': inBlock({ stateRoot: toWord(1) }),
    'another hash': inBlock({ hash: toWord(1) }),
    'a header with right looks': {
      eth_getBlockByHash: value => {
        const forged = { ...members(value), stateRoot: toWord(1) }
        return { ...forged, hash: headerHashOf(forged) }
      },
    },
    'a field under the name of another': {
      eth_getBlockByHash: value => {
        const { baseFeePerGas, ...rest } = members(value)
        return 'requestsHash' in rest ? { ...rest, requestsHash: baseFeePerGas! } : rest
      },
    },
    'uncles that are none': inBlock({ uncles: [toWord(1)] }),
    'withdrawals that are none': inBlock({
      withdrawals: [{ index: '0x0', validatorIndex: '0x0', address: `0x${'12'.repeat(20)}`, amount: '0x1' }],
    }),
  }

  /** That the hashes of transactions do not show. */
  const senderLies: Readonly<Record<string, Lie>> = {
    'a transaction of another sender': inTransactions(each => ({ ...each, from: `0x${'12'.repeat(20)}` })),
  }
  const ofBlock: readonly Question[] = [
    ['eth_getBlockByNumber', last, true],
    ['eth_getBlockByHash', hash, false],
    ['eth_getTransactionByBlockHashAndIndex', hash, '0x0'],
    ['eth_getTransactionByHash', mined[0]!],
  ]
  const ofReceipts: readonly Question[] = [
    ['eth_getBlockReceipts', last],
    ['eth_getTransactionReceipt', mined[0]!],
  ]
  const tables = [
    { lies: receiptLies, asked: ofReceipts },
    { lies: blockLies, asked: [...ofBlock, ...ofReceipts] },
    { lies: senderLies, asked: [...ofBlock.filter(([, , isWhole]) => isWhole !== false), ...ofReceipts] },
  ]
  for (const { lies, asked } of tables) {
    for (const [what, lie] of Object.entries(lies)) {
      t.test(`${what}: the node is blamed, and gets no answer through`, async t => {
        for (const [method, ...params] of asked) {
          const gateway = openProofs({ liar: lying(lie), second: honest, third: honest }, known)
          t.equal(await gateway.call(method, ...params), undefined, method)
          t.match(gateway.log.lines, [{ fields: { upstream: 'liar', method }, message: 'upstream returned a wrong result' }])
        }
      })
    }
  }

  t.test('a transaction is not in the block that the node names', async t => {
    const other = { blockHash: hashes[2]!, blockNumber: toHexQuantity(head - 1), transactionIndex: '0x0' }
    const node = lying({ eth_getTransactionByHash: value => ({ ...members(value), ...other }) })
    const gateway = openProofs({ liar: node, second: honest, third: honest }, known)
    t.equal(await gateway.call('eth_getTransactionByHash', mined[0]!), undefined)
    t.match(gateway.log.lines, [{ fields: { upstream: 'liar', cause: /the block has no such transaction/ } }])
  })

  t.test('a block that the others do not have is no lie of the node, and no answer', async t => {
    const node = lying({
      eth_getTransactionReceipt: value => ({ ...members(value), blockHash: toWord(1) }),
    })
    const gateway = openProofs({ one: node, second: honest, third: honest }, known)
    t.equal(await gateway.call('eth_getTransactionReceipt', mined[0]!), undefined)
    t.same(gateway.log.lines, [])
  })

  t.test('what a node does not have', async t => {
    const without = lying(
      Object.fromEntries(
        ['eth_getTransactionByHash', 'eth_getTransactionReceipt', 'eth_getBlockByHash'].map(method => [method, () => null] as const),
      ),
    )
    const asked: readonly Question[] = [
      ['eth_getTransactionByHash', mined[0]!],
      ['eth_getTransactionReceipt', mined[0]!],
      ['eth_getBlockByHash', hash, true],
    ]
    t.test('is answered by one that has it, however many have not', async t => {
      for (const [method, ...params] of asked) {
        const gateway = openProofs({ liar: without, second: without, honest }, known)
        t.same(await gateway.call(method, ...params), await chain.request(method, ...params), method)
      }
    })

    t.test('is null only where as many nodes say so as must agree on a header', async t => {
      for (const [method, ...params] of asked) {
        const nobody: Question = [method, toWord(7), ...params.slice(1)]
        t.equal(await openProofs({ one: honest, two: honest }, known).call(...nobody), null, method)
        t.equal(await openProofs({ one: honest }, known).call(...nobody), null, 'one node alone')
        t.equal(await openProofs({ one: honest, down: async () => undefined }, known).call(...nobody), undefined, 'one of two is down')
        t.equal(
          await openProofs({ one: honest, two: honest, down: async () => undefined }, known).call(...nobody),
          null,
          'two of three say so',
        )
        t.equal(
          await openProofs({ one: honest, two: honest, down: async () => undefined }, { ...known, agree: 3 }).call(...nobody),
          undefined,
          'three must',
        )
      }
    })

    t.test('is pending where the others have it in no block either', async t => {
      const question: Question = ['eth_getTransactionByHash', pending]
      t.match(await openProofs({ without, honest }, known).call(...question), { hash: pending, blockHash: null })
      t.match(await openProofs({ honest, without }, known).call(...question), { hash: pending, blockHash: null })
      const late = lying({ eth_getTransactionByHash: value => ({ ...members(value), blockHash: null, blockNumber: null }) })
      t.match(await openProofs({ late, honest }, known).call('eth_getTransactionByHash', mined[0]!), { blockHash: hash })
    })

    t.test('is null for a block above the head', async t => {
      const above = toHexQuantity(head + 1)
      const questions: readonly Question[] = [
        ['eth_getBlockByNumber', above, false],
        ['eth_getBlockReceipts', above],
      ]
      for (const question of questions) t.equal(await openProofs({ one: honest, two: honest }, known).call(...question), null)
    })
  })

  t.test('a block that is replaced while it is read is looked up once more', async t => {
    let isOld = true
    const old: Node = async request => {
      const value = (await honest(request))!
      if (!isOld || request.method !== 'eth_getBlockByNumber') return value
      const forged = { ...members(value), extraData: '0x01' }
      return { ...forged, hash: headerHashOf(forged) }
    }
    const gateway = openProofs({ one: old, two: old }, known)
    t.equal(await gateway.call('eth_getBlockReceipts', last), undefined)
    isOld = false
    t.same(await gateway.call('eth_getBlockReceipts', last), receipts)
    t.same(gateway.log.lines, [])
  })
})

/** A number in 32 bytes. */
function toWord(value: number): string {
  return `0x${value.toString(16).padStart(64, '0')}`
}
