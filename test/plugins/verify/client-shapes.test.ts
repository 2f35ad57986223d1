import fc from 'fast-check'
import t from '../../support/tap.ts'
import { headerHashOf } from '../../../plugins/verify/block-header.ts'
import { toBytes, toHex } from '../../../plugins/verify/hex.ts'
import { logsBloomOf } from '../../../plugins/verify/logs-bloom.ts'
import { encodeRlp } from '../../../plugins/verify/rlp.ts'
import { emptyCodeHash } from '../../../plugins/verify/state-proof.ts'
import { encodeTransaction } from '../../../plugins/verify/transaction-encoding.ts'
import { emptyRoot } from '../../../plugins/verify/trie-proof.ts'
import { trieRootOf } from '../../../plugins/verify/trie-root.ts'
import { coveredReceiptsOf, receiptsRootOf } from '../../../plugins/verify/receipts-root.ts'
import type { Json } from '../../../src/plugin/call.ts'
import { keccak256 } from '../../../src/plugin/plugin.ts'
import { parseSteps, stringifySteps } from '../../../plugins/verify/json-steps.ts'
import { runAtOnce } from '../../../plugins/verify/work-turns.ts'
import { answerAt, contracts, createBlock } from './model-blocks.ts'
import type { Node } from './proof-fixture.ts'
import { createClientBlock, failedCreation, nodeOf } from './client-block.ts'
import type { ClientBlock } from './client-block.ts'
import { recordedAnswers } from './official-chain.ts'
import { openProofs } from './proof-fixture.ts'
import { openVerify } from './verify-fixture.ts'
import type { JsonMembers } from './verify-fixture.ts'

const plain = await createClientBlock()
const number = plain.block['number']!
const hash = plain.block['hash']!
const known = { head: () => Number(number) }

type Change = (members: JsonMembers) => JsonMembers

const without =
  (...names: readonly string[]): Change =>
  members =>
    Object.fromEntries(Object.entries(members).filter(([name]) => !names.includes(name)))
const adding =
  (more: JsonMembers): Change =>
  members => ({ ...more, ...members })
const replacing =
  (change: (value: string) => string, ...names: readonly string[]): Change =>
  members =>
    Object.fromEntries(
      Object.entries(members).map(([name, value]) => [name, names.includes(name) && typeof value === 'string' ? change(value) : value]),
    )
const padded = (value: string): string => `0x0${value.slice(2)}`
const upper = (value: string): string => `0x${value.slice(2).toUpperCase()}`
const isOld = ({ type }: JsonMembers): boolean => Number(type) === 0
const where =
  (matches: (members: JsonMembers) => boolean, change: Change): Change =>
  members =>
    matches(members) ? change(members) : members
const isTyped = (members: JsonMembers): boolean => !isOld(members)
const asJsonNumbers =
  (...names: readonly string[]): Change =>
  members =>
    Object.fromEntries(
      Object.entries(members).map(([name, value]) => [name, names.includes(name) && typeof value === 'string' ? Number(value) : value]),
    )
const parityOf = ({ v }: JsonMembers): string => (Number(v) === 1 || (Number(v) > 1 && Number(v) % 2 === 0) ? '0x1' : '0x0')
const otherTypes = ['accessList', 'maxFeePerGas', 'maxPriorityFeePerGas', 'maxFeePerBlobGas', 'blobVersionedHashes', 'authorizationList']

/** In what honest nodes differ: geth, Erigon, Nethermind, Besu, reth and their versions, and providers. */
const ofBlock: Readonly<Record<string, Change>> = {
  'total difficulty': adding({ totalDifficulty: '0xc70d815d562d3cfa955' }),
  'no size, no uncles': without('size', 'uncles'),
  'a nonce that is a number': replacing(() => '0x0', 'nonce'),
  'zeros before numbers': replacing(padded, 'difficulty', 'gasUsed', 'baseFeePerGas', 'excessBlobGas'),
  'hashes in upper case': replacing(upper, 'stateRoot', 'miner', 'logsBloom', 'receiptsRoot'),
  'fields of forks to come are null': adding({ blockAccessListHash: null, slotNumber: null }),
  'members of Parity': adding({ author: `0x${'c0'.repeat(20)}`, sealFields: ['0x01'] }),
  // erigontech/erigon, pull 7279; paradigmxyz/reth, pull 1945
  'null for lists that are empty': members => ({ ...members, withdrawals: null, uncles: null }),
  // erigontech/erigon, rpc/ethapi/block_fastjson.go; NethermindEth/nethermind, Eth/BlockForRpc.cs
  'members of Gnosis': adding({ auraSeal: '0x01', auraStep: '0x1', step: 7, signature: '0x02' }),
}
const accessListOf = (members: JsonMembers): readonly JsonMembers[] => (members['accessList'] ?? []) as readonly JsonMembers[]
const isEmpty = (list: Json | undefined): boolean => (list as readonly Json[]).length === 0
const ofTransaction: Readonly<Record<string, Change>> = {
  'no yParity': without('yParity'),
  'v as that of an old transaction': where(isTyped, members => ({ ...members, v: parityOf(members) === '0x0' ? '0x1b' : '0x1c' })),
  'no v where there is a yParity': where(members => isTyped(members) && 'yParity' in members, without('v')),
  'yParity of an old transaction': where(isOld, members => ({ ...members, yParity: parityOf(members) })),
  'null for what the type does not have': adding(Object.fromEntries(otherTypes.map(name => [name, null]))),
  'an empty access list': adding({ accessList: [] }),
  'a chain ID that is null': adding({ chainId: null }),
  'no type': where(isOld, without('type')),
  'zeros before the type and numbers': replacing(padded, 'type', 'value', 'nonce', 'gas', 'gasPrice', 'v', 'yParity', 'chainId'),
  'data beside input': members => ({ ...members, data: members['input']! }),
  'data in place of input': members => without('input')({ ...members, data: members['input']! }),
  'checksums of addresses': replacing(upper, 'from', 'to', 'hash', 'blockHash'),
  'the time of the block': adding({ blockTimestamp: '0x65' }),
  'no gas price where there are fees': where(({ type }) => Number(type) > 1, without('gasPrice')),
  'members of Parity': adding({ creates: null, publicKey: '0x04', raw: '0x02', standardV: '0x1', condition: null }),
  // erigontech/erigon, issue 2162
  'storage keys that are null where there are none': where(
    members => accessListOf(members).length > 0,
    members => ({
      ...members,
      accessList: accessListOf(members).map(each => (isEmpty(each['storageKeys']) ? { ...each, storageKeys: null } : each)),
    }),
  ),
  // NethermindEth/nethermind, issue 5921
  'no access list where it is empty': where(members => accessListOf(members).length === 0, without('accessList')),
}
const ofLog: Readonly<Record<string, Change>> = {
  'no removed, no time': without('removed', 'blockTimestamp'),
  'zeros before the index': replacing(padded, 'logIndex', 'transactionIndex'),
  'a type, as Parity': adding({ type: 'mined', transactionLogIndex: '0x0' }),
  // ethereum/go-ethereum, issue 32120
  'a time that is a JSON number': where(members => 'blockTimestamp' in members, asJsonNumbers('blockTimestamp')),
  // blockscout/blockscout, pull 5978, of Erigon
  'a second time, which is not set': adding({ timestamp: '0x0' }),
}
const inLogs =
  (change: Change): Change =>
  members => ({ ...members, logs: (members['logs'] as readonly JsonMembers[]).map(change) })
const isCall = ({ to }: JsonMembers): boolean => to !== null
const ofReceipt: Readonly<Record<string, Change>> = {
  'no type': where(isOld, without('type')),
  'zeros before the type and numbers': replacing(padded, 'type', 'status', 'gasUsed', 'cumulativeGasUsed', 'effectiveGasPrice'),
  'no bloom': without('logsBloom'),
  'a root that is null': adding({ root: null }),
  'no prices': without('blobGasPrice', 'effectiveGasPrice'),
  'no sender': without('from'),
  'no contract': where(isCall, without('contractAddress')),
  'no contract where its creation has failed': members =>
    Number(members['status']) === 0 ? { ...members, contractAddress: null } : members,
  'blob gas of others': adding({ blobGasUsed: '0x0' }),
  // paradigmxyz/reth, pull 7129
  'a blob gas price of others': adding({ blobGasPrice: '0x1' }),
  // erigontech/erigon, issue 2288 and pull 8015
  'a status and blob gas that are JSON numbers': asJsonNumbers('status', 'blobGasUsed'),
  'addresses in upper case': replacing(upper, 'from', 'contractAddress', 'transactionHash'),
  'members of a network': adding({ l1Fee: '0x1', author: null }),
  // hyperledger/besu, results/TransactionReceiptResult.java; NethermindEth/nethermind, Data/ReceiptForRpc.cs
  'gas before refunds, and why it has failed': adding({ gasSpent: '0x5208', revertReason: '0x08c379a0', error: 'revert' }),
  // ethereum-optimism/op-geth, core/types/receipt.go
  'a decimal of the OP stack': adding({ l1FeeScalar: '0.684', l1GasUsed: '0x640', daFootprintGasScalar: '0x190' }),
  ...Object.fromEntries(Object.entries(ofLog).map(([what, change]) => [`logs: ${what}`, inLogs(change)])),
}

const some = (changes: Readonly<Record<string, Change>>) => fc.subarray(Object.keys(changes))
const apply = (changes: Readonly<Record<string, Change>>, names: readonly string[], members: JsonMembers): JsonMembers =>
  names.reduce((changed, name) => changes[name]!(changed), members)

interface Shape {
  readonly block: readonly string[]
  readonly transaction: readonly string[]
  readonly receipt: readonly string[]
}

const shapedAs = ({ block, transaction, receipt }: Shape, base: ClientBlock = plain): ClientBlock => ({
  block: apply(ofBlock, block, base.block),
  transactions: base.transactions.map(each => apply(ofTransaction, transaction, each)),
  receipts: base.receipts.map(each => apply(ofReceipt, receipt, each)),
})

/** What a node says about a block, by the call. */
const answersOf = ({
  block,
  transactions,
  receipts,
}: ClientBlock): readonly (readonly [method: string, params: readonly Json[], Json])[] => [
  ['eth_getBlockByNumber', [number, true], { ...block, transactions }],
  ['eth_getBlockByHash', [hash, false], { ...block, transactions: plain.transactions.map(each => each['hash']!) }],
  ['eth_getBlockReceipts', [number], receipts],
  ['eth_getLogs', [{ fromBlock: number, toBlock: number }], receipts.flatMap(({ logs }) => logs as readonly Json[])],
  ...transactions.map((each, i) => ['eth_getTransactionByHash', [plain.transactions[i]!['hash']!], each] as const),
  ...receipts.map((each, i) => ['eth_getTransactionReceipt', [plain.transactions[i]!['hash']!], each] as const),
]

const shapes = [
  ...Object.keys(ofBlock).map(name => ({ block: [name], transaction: [], receipt: [] })),
  ...Object.keys(ofTransaction).map(name => ({ block: [], transaction: [name], receipt: [] })),
  ...Object.keys(ofReceipt).map(name => ({ block: [], transaction: [], receipt: [name] })),
].map((shape): [Shape] => [shape])
const anyShape = fc.record({ block: some(ofBlock), transaction: some(ofTransaction), receipt: some(ofReceipt) })
const lower = (value: Json): string => JSON.stringify(value).toLowerCase()

t.test('what clients write in their own ways', async t => {
  t.test('is accepted by check on Ethereum, and no node is blamed', async t => {
    await fc.assert(
      fc.asyncProperty(anyShape, async shape => {
        const gateway = openVerify({ chainId: 1 })
        for (const [method, params, value] of answersOf(shapedAs(shape)))
          if (!(await gateway.accepts(method, params, value))) throw new Error(`${method}: ${JSON.stringify(gateway.log.lines)}`)
        if (gateway.log.lines.length > 0) throw new Error(JSON.stringify(gateway.log.lines))
      }),
      { numRuns: 60 + shapes.length, examples: shapes },
    )
    t.pass()
  })

  t.test('is proven as it is written, whichever client is asked', async t => {
    await fc.assert(
      fc.asyncProperty(anyShape, async shape => {
        const client = shapedAs(shape)
        const answers = answersOf(client)
        const shaped = nodeOf(client)
        const one = async (request: Parameters<typeof shaped>[0]) =>
          answers.find(
            ([method, params]) => method === request.method && params[0] === request.params[0] && /Transaction/.test(method),
          )?.[2] ?? shaped(request)
        const { call, log } = openProofs({ one, two: nodeOf(plain) }, known)
        for (const [method, params, value] of answers) {
          const answer = await call(method, ...params)
          if (answer === undefined || lower(answer) !== lower(value))
            throw new Error(`${method}: ${JSON.stringify(answer)} for ${JSON.stringify(value)}: ${JSON.stringify(log.lines)}`)
        }
        if (log.lines.length > 0) throw new Error(JSON.stringify(log.lines))
      }),
      { numRuns: 60 + shapes.length, examples: shapes },
    )
    t.pass()
  })
})

t.test('a quorum of two clients is reached, or a proof settles what they write in their own ways', async () => {
  const nodeAnswering = (client: ClientBlock): Node => {
    const answers = answersOf(client)
    return async request => {
      const answer = answers.find(
        ([method, params]) => method === request.method && JSON.stringify(params) === JSON.stringify(request.params),
      )
      return answer?.[2] ?? nodeOf(client)(request)
    }
  }
  await fc.assert(
    fc.asyncProperty(anyShape, async shape => {
      const nodes = { one: nodeAnswering(shapedAs(shape)), two: nodeAnswering(plain) }
      const { call, log } = openProofs(nodes, { ...known, policies: { 'eth_get*': '2 of 2' } })
      for (const [method, params] of answersOf(plain))
        if ((await call(method, ...params)) === undefined) throw new Error(`${method}: ${JSON.stringify(log.lines)}`)
      if (log.lines.length > 0) throw new Error(JSON.stringify(log.lines))
    }),
    { numRuns: 20 + shapes.length, examples: shapes },
  )
})

// besu-eth/besu, issue 10359; ethereum/go-ethereum, pull 34652
t.test('the hash of the access lists of a block has two names', async t => {
  const listHash = `0x${'8'.repeat(64)}`
  const { block, transactions, receipts } = await createClientBlock(header => ({
    ...header,
    blockAccessListHash: listHash,
    slotNumber: '0x9',
  }))
  const other = without('blockAccessListHash')({ ...block, balHash: listHash })
  const client = (of: JsonMembers): ClientBlock => ({ block: of, transactions, receipts })
  const accepts = (of: JsonMembers) => openVerify({ chainId: 1 }).accepts('eth_getBlockByNumber', [number, true], { ...of, transactions })
  const open = (of: JsonMembers) => openProofs({ one: nodeOf(client(of)), two: nodeOf(client(block)) }, known)

  t.test('of which a block may have either, or both', async t => {
    for (const of of [
      block,
      other,
      { ...block, balHash: listHash },
      { ...block, balHash: null },
      { ...other, blockAccessListHash: null },
    ]) {
      t.ok(await accepts(of))
      const { call, log } = open(of)
      t.same(await call('eth_getBlockByNumber', number, true), { ...of, transactions })
      t.same(log.lines, [])
    }
  })

  t.test('and no other hash is shown under the second', async t => {
    const wrong = `0x${'9'.repeat(64)}`
    for (const of of [
      { ...block, balHash: wrong },
      { ...other, balHash: wrong },
      { ...other, blockAccessListHash: wrong },
    ]) {
      t.notOk(await accepts(of))
      t.equal(await open(of).call('eth_getBlockByHash', block['hash']!, true), undefined)
    }
  })

  t.test('as clients of a quorum have them', async t => {
    const { call, log } = openProofs(
      { one: nodeOf(client(other)), two: nodeOf(client(block)) },
      { ...known, policies: { 'eth_get*': '2 of 2' } },
    )
    const { balHash: _, ...common } = other
    t.same(await call('eth_getBlockByNumber', number, true), { ...common, transactions })
    t.same(log.lines, [])
  })
})

t.test('withdrawals that are left out are none', async t => {
  const block: JsonMembers = { ...plain.block, withdrawals: null }
  const withSome = await createClientBlock(header => ({ ...header, withdrawalsRoot: `0x${'8'.repeat(64)}` }))
  const open = (of: ClientBlock) => openProofs({ one: nodeOf(of), two: nodeOf(of) }, known)
  t.same(await open({ ...plain, block }).call('eth_getBlockByNumber', number, false), {
    ...block,
    transactions: plain.transactions.map(each => each['hash']!),
  })
  const left: JsonMembers = { ...withSome.block, withdrawals: null }
  t.equal(await open({ ...withSome, block: left }).call('eth_getBlockByNumber', number, false), undefined)
})

// hyperledger/besu, results/TransactionPendingResult.java; ethereum/go-ethereum, issue 14661
t.test('a transaction that is in no block yet is accepted by check', async t => {
  const place = { blockHash: null, blockNumber: null, transactionIndex: null }
  const places: Readonly<Record<string, Change>> = {
    null: members => ({ ...members, ...place }),
    absent: without(...Object.keys(place)),
    zeros: members => ({ ...members, ...place, blockHash: `0x${'0'.repeat(64)}`, transactionIndex: '0x0' }),
  }
  for (const [what, change] of Object.entries(places)) {
    const gateway = openVerify({ chainId: 1 })
    for (const each of plain.transactions) t.ok(await gateway.accepts('eth_getTransactionByHash', [each['hash']!], change(each)), what)
    t.same(gateway.log.lines, [])
  }
})

// NethermindEth/nethermind, Eth/BlockForRpc.cs and issue 4545
t.test('a block of validators, without a nonce, is no lie where no hash is known of it', async t => {
  const { mixHash: _, nonce: __, ...others } = plain.block
  const block = { ...others, author: `0x${'c0'.repeat(20)}`, step: 333_000_000, signature: `0x${'ab'.repeat(65)}` }
  const gateway = openVerify({ chainId: 100 })
  t.ok(await gateway.accepts('eth_getBlockByNumber', [number, true], { ...block, transactions: plain.transactions }))
  const of = { ...plain, block }
  const { call, log } = openProofs({ one: nodeOf(of), two: nodeOf(of) }, { ...known, chainId: 100 })
  t.equal(await call('eth_getBlockByHash', hash, false), undefined)
  t.same([gateway.log.lines, log.lines], [[], []])
})

t.test('a proof of state, as each client writes it, shows the same', async t => {
  const [address, nobody] = [`0x${'a1'.repeat(20)}`, `0x${'b2'.repeat(20)}`]
  const slot = `0x${'0'.repeat(63)}1`
  const leafOf = (key: string, value: Buffer): Buffer =>
    encodeRlp([Buffer.concat([Buffer.from([0x20]), keccak256(toBytes(key))]), encodeRlp(value)])
  const inStorage = leafOf(slot, Buffer.from([9]))
  const [storageHash, codeHash] = [keccak256(inStorage), toBytes(emptyCodeHash)]
  const account = encodeRlp([Buffer.from([3]), Buffer.from([5]), storageHash, codeHash])
  const inState = encodeRlp([Buffer.concat([Buffer.from([0x20]), keccak256(toBytes(address))]), account])
  const client = await createClientBlock(header => ({ ...header, stateRoot: toHex(keccak256(inState)) }))
  const zero = `0x${'0'.repeat(64)}`
  const proofOf = ([of, keys]: readonly Json[]): JsonMembers => {
    const isThere = of === address
    return {
      ...{ address: of!, accountProof: [toHex(inState)], balance: isThere ? '0x5' : '0x0', nonce: isThere ? '0x3' : '0x0' },
      ...{ codeHash: isThere ? emptyCodeHash : zero, storageHash: isThere ? toHex(storageHash) : zero },
      storageProof: (keys as readonly string[]).map(key => ({
        key,
        value: isThere && key === slot ? '0x9' : '0x0',
        proof: isThere ? [toHex(inStorage)] : [],
      })),
    }
  }
  const inSlots =
    (change: Change): Change =>
    proof => ({ ...proof, storageProof: (proof['storageProof'] as readonly JsonMembers[]).map(change) })
  const whenAbsent = (change: Change): Change => where(proof => proof['nonce'] === '0x0', change)
  const followedBy =
    (node: string, name: string): Change =>
    members => ({ ...members, [name]: [...(members[name] as readonly Json[]), node] })
  const ways: Readonly<Record<string, Change>> = {
    'zeros for hashes of an account that is absent, as geth': members => members,
    // hyperledger/besu, proof/GetProofResult.java; paradigmxyz/reth, pull 24359
    'hashes of nothing for one that is absent': whenAbsent(members => ({ ...members, codeHash: emptyCodeHash, storageHash: emptyRoot })),
    // hyperledger/besu, proof/GetProofResult.java
    'no slots of one that is absent': whenAbsent(members => ({ ...members, storageProof: [] })),
    // erigontech/erigon, issue 17801
    'a proof that is null': whenAbsent(inSlots(members => ({ ...members, proof: null }))),
    // paradigmxyz/reth, crates/trie/common/src/proofs.rs
    'the node of an empty trie': whenAbsent(inSlots(members => ({ ...members, proof: ['0x80'] }))),
    // hyperledger/besu, proof/StorageEntryProof.java
    'keys that are numbers': inSlots(members => ({ ...members, key: `0x${String(members['key']).replace(/^0x0*/, '')}` })),
    // NethermindEth/nethermind, issues 6391 and 4394
    'zeros before values': inSlots(replacing(padded, 'value')),
    // NethermindEth/nethermind, pull 1991
    'values that are null': inSlots(members => (members['value'] === '0x0' ? { ...members, value: null } : members)),
    // NethermindEth/nethermind, Proofs/AccountProofCollector.cs
    'no bytes behind the last node': members => followedBy('0x', 'accountProof')(inSlots(followedBy('0x', 'proof'))(members)),
    'members of others': adding({ transactionHash: hash, nonceKey: null }),
  }
  for (const [what, change] of Object.entries(ways)) {
    const node: Node = async request => (request.method === 'eth_getProof' ? change(proofOf(request.params)) : nodeOf(client)(request))
    const { call, log } = openProofs({ one: node, two: node }, known)
    for (const [method, of, ...answer] of [
      ['eth_getBalance', address, '0x5'],
      ['eth_getBalance', nobody, '0x0'],
      ['eth_getTransactionCount', address, '0x3'],
      ['eth_getTransactionCount', nobody, '0x0'],
      ['eth_getCode', address, '0x'],
      ['eth_getCode', nobody, '0x'],
    ] as const)
      t.equal(await call(method, of, number), answer[0], `${what}: ${method} ${of}`)
    for (const [of, key, value] of [
      [address, '0x1', `0x${'0'.repeat(63)}9`],
      [address, '0x2', zero],
      [nobody, '0x1', zero],
    ] as const)
      t.equal(await call('eth_getStorageAt', of, key, number), value, `${what}: ${of} ${key}`)
    t.same(log.lines, [], what)
  }
})

t.test('members that no hash covers', async t => {
  const lie = (i: number, members: JsonMembers) => ({ i, members })
  const lies = {
    'fees of an old transaction': lie(0, { maxFeePerGas: '0x99', maxPriorityFeePerGas: '0x98' }),
    'the access list of an old transaction': lie(0, { accessList: [{ address: `0x${'9'.repeat(40)}`, storageKeys: [] }] }),
    'another chain ID than that of v': lie(0, { chainId: '0x99' }),
    'a chain ID without one in v': lie(1, { chainId: '0x99' }),
    'another parity than that of v': lie(0, { yParity: '0x7' }),
    'another v than the parity': lie(4, { v: parityOf(plain.transactions[4]!) === '0x0' ? '0x1' : '0x0' }),
    'a v that is none': lie(4, { v: parityOf(plain.transactions[4]!) === '0x0' ? '0x99' : '0x9a' }),
    'blobs of a transaction without': lie(4, { blobVersionedHashes: [`0x01${'9'.repeat(62)}`] }),
    'authorizations of a transaction without': lie(4, { authorizationList: [{ address: `0x${'9'.repeat(40)}` }] }),
    'other data than the input': lie(4, { data: '0x9999' }),
  }
  for (const [what, { i, members }] of Object.entries(lies))
    t.test(`${what}: it is left out, and the node is not blamed`, async t => {
      const transactions = plain.transactions.with(i, { ...plain.transactions[i]!, ...members })
      const { call, log } = openProofs({ one: nodeOf({ ...plain, transactions }), two: nodeOf(plain) }, known)
      const expected = without(...Object.keys(members))(plain.transactions[i]!)
      t.same(await call('eth_getTransactionByHash', expected['hash']!), expected)
      t.match(await call('eth_getBlockByNumber', number, true), { transactions: plain.transactions.with(i, expected) })
      t.same(log.lines, [])
    })

  t.test('of an authorization, a v that says something else than its parity is left out', async t => {
    const i = 7
    const transaction = plain.transactions[i]!
    const change = (of: (authorization: JsonMembers) => JsonMembers): JsonMembers => ({
      ...transaction,
      authorizationList: (transaction['authorizationList'] as readonly JsonMembers[]).map(of),
    })
    const lying = change(authorization => ({ ...authorization, v: '0x99' }))
    const { call, log } = openProofs(
      { one: nodeOf({ ...plain, transactions: plain.transactions.with(i, lying) }), two: nodeOf(plain) },
      known,
    )
    t.same(await call('eth_getTransactionByHash', transaction['hash']!), change(without('v')))
    t.same(log.lines, [])
  })

  t.test('a gas price that is the maximum, as while a transaction is pending, is left out; any other that is wrong is a lie', async t => {
    const i = 4
    const priced = (gasPrice: string) => plain.transactions.with(i, { ...plain.transactions[i]!, gasPrice })
    const open = (transactions: readonly JsonMembers[]) =>
      openProofs({ one: nodeOf({ ...plain, transactions }), two: nodeOf(plain) }, { ...known, hasFailover: true })
    const pending = open(priced(String(plain.transactions[i]!['maxFeePerGas'])))
    const expected = without('gasPrice')(plain.transactions[i]!)
    t.same(await pending.call('eth_getTransactionByHash', expected['hash']!), expected)
    t.same(await pending.call('eth_getTransactionReceipt', expected['hash']!), plain.receipts[i])
    t.same(pending.log.lines, [])
    const wrong = open(priced('0x1'))
    t.same(await wrong.call('eth_getTransactionByHash', expected['hash']!), plain.transactions[i])
    t.match(wrong.log.lines, [{}, { fields: { event: 'upstream-lied', upstream: 'one' } }])
  })

  // ethereum/go-ethereum, issue 32334; l2beat/l2beat, pull 11842
  t.test('a time of a log that is 0 is left out; any other that is wrong is a lie', async t => {
    const withTimes = (change: Change) => ({ ...plain, receipts: plain.receipts.map(inLogs(change)) })
    const open = (blockTimestamp: string) =>
      openProofs({ one: nodeOf(withTimes(log => ({ ...log, blockTimestamp }))), two: nodeOf(plain) }, { ...known, hasFailover: true })
    const unset = open('0x0')
    const { receipts } = withTimes(without('blockTimestamp'))
    t.same(await unset.call('eth_getBlockReceipts', number), receipts)
    t.same(
      await unset.call('eth_getLogs', { fromBlock: number, toBlock: number }),
      receipts.flatMap(each => (each as JsonMembers)['logs'] as readonly Json[]),
    )
    t.same(unset.log.lines, [])
    const wrong = open('0x66')
    t.same(await wrong.call('eth_getBlockReceipts', number), plain.receipts)
    t.match(wrong.log.lines, [{}, { fields: { event: 'upstream-lied', upstream: 'one' } }])
  })

  t.test('a receipt has what follows from its transaction, not from what a node adds to it', async t => {
    const transactions = plain.transactions.with(4, { ...plain.transactions[4]!, blobVersionedHashes: [`0x01${'9'.repeat(62)}`] })
    const receipts = plain.receipts.with(4, { ...plain.receipts[4]!, blobGasUsed: '0x20000' })
    const { call } = openProofs({ one: nodeOf({ ...plain, transactions, receipts }), two: nodeOf(plain) }, known)
    t.equal(await call('eth_getBlockReceipts', number), undefined)
  })

  t.test('a contract that was created is not left out', async t => {
    const withoutContract = (i: number) => plain.receipts.with(i, { ...plain.receipts[i]!, contractAddress: null })
    const open = (i: number) => openProofs({ one: nodeOf({ ...plain, receipts: withoutContract(i) }), two: nodeOf(plain) }, known)
    t.equal(await open(2).call('eth_getBlockReceipts', number), undefined)
    t.ok(await open(failedCreation).call('eth_getBlockReceipts', number))
  })
})

t.test('a signature that is short, as of contracts that each chain has at one address', async t => {
  // The deployment of the contract of beacon roots, as EIP-4788 has it.
  const deployment: JsonMembers = {
    ...{ type: '0x0', nonce: '0x0', to: null, gas: '0x3d090', gasPrice: '0xe8d4a51000', value: '0x0' },
    input:
      '0x60618060095f395ff33373fffffffffffffffffffffffffffffffffffffffe14604d57602036146024575f5ffd5b5f35801560495762001fff810690815414603c575f5ffd5b62001fff01545f5260205ff35b5f5ffd5b62001fff42064281555f359062001fff015500',
    ...{ v: '0x1b', r: '0x539', s: '0x1b9b6eb1f0', from: '0x0b799c86a49deeb90402691f1041aa3af2d3c875' },
    hash: '0xdf52c2d3bbe38820fff7b5eaab3db1b91f8e1412b56497d88388fb5d4ea1fde0',
  }
  const { hash: _, ...header } = plain.block
  const unsealed = { ...header, transactionsRoot: toHex(trieRootOf([encodeTransaction(deployment)])), receiptsRoot: emptyRoot }
  const sealed: JsonMembers = { ...unsealed, hash: headerHashOf(unsealed) }
  const transaction: JsonMembers = { ...deployment, blockHash: sealed['hash']!, blockNumber: number, transactionIndex: '0x0' }
  const nodeWith = (given: JsonMembers) => nodeOf({ block: sealed, transactions: [given], receipts: [] })

  t.test('is accepted by check on Ethereum, and a change of the transaction is not', async t => {
    const gateway = openVerify({ chainId: 1 })
    t.ok(await gateway.accepts('eth_getTransactionByHash', [deployment['hash']!], transaction))
    t.ok(await gateway.accepts('eth_getBlockByNumber', [number, true], { ...sealed, transactions: [transaction] }))
    t.notOk(await gateway.accepts('eth_getTransactionByHash', [deployment['hash']!], { ...transaction, value: '0x1' }))
  })

  // NethermindEth/nethermind, issue 2372
  t.test('is one with zeros before its numbers', async t => {
    const word = (value: Json | undefined) => `0x${String(value).slice(2).padStart(64, '0')}`
    const long = { ...transaction, r: word(transaction['r']), s: word(transaction['s']) }
    t.ok(await openVerify({ chainId: 1 }).accepts('eth_getTransactionByHash', [deployment['hash']!], long))
    const { call, log } = openProofs({ one: nodeWith(long), two: nodeWith(transaction) }, known)
    t.same(await call('eth_getTransactionByHash', deployment['hash']!), long)
    t.same(log.lines, [])
  })

  t.test('is proven with its sender, of which no other is believed', async t => {
    const { call, log } = openProofs({ one: nodeWith(transaction), two: nodeWith(transaction) }, known)
    t.same(await call('eth_getTransactionByHash', deployment['hash']!), transaction)
    t.same(log.lines, [])
    const other = openProofs({ one: nodeWith({ ...transaction, from: `0x${'9'.repeat(40)}` }), two: nodeWith(transaction) }, known)
    t.equal(await other.call('eth_getTransactionByHash', deployment['hash']!), undefined)
  })
})

t.test('what a root covers, under a name that says something else', async t => {
  const open = (client: ClientBlock, honest = plain) =>
    openProofs({ one: nodeOf(client), two: nodeOf(honest) }, { ...known, hasFailover: true })
  const isRefused = ({ log }: ReturnType<typeof open>) =>
    log.lines.some(({ message, fields }) => message === 'upstream returned a wrong result' && JSON.stringify(fields).includes('"one"'))

  t.test('a state root is no status, and a status no state root', t => {
    const recorded = recordedAnswers.find(({ name }) => name.endsWith('get-block-receipts-by-hash'))!.result as readonly JsonMembers[]
    const old = { receiptsRoot: receiptsRootOf(recorded), baseFeePerGas: undefined }
    const asStatus = recorded.map(({ root, ...receipt }) => ({ ...receipt, status: root! }) as JsonMembers)
    t.throws(() => coveredReceiptsOf(asStatus, old))
    const newer = { receiptsRoot: plain.block['receiptsRoot'] as string, baseFeePerGas: '0x7' }
    const asRoot = plain.receipts.map(({ status, ...receipt }) => ({ ...receipt, root: status === '0x1' ? '0x01' : '0x' }) as JsonMembers)
    t.throws(() => coveredReceiptsOf(asRoot, newer))
    t.end()
  })

  t.test('a log that is proven is none that was removed, however a node writes it', async t => {
    const logs = plain.receipts[1]!['logs'] as readonly JsonMembers[]
    for (const removed of [true, 'true', 1]) {
      const receipts = plain.receipts.with(1, { ...plain.receipts[1]!, logs: logs.map(log => ({ ...log, removed })) })
      const gateway = open({ ...plain, receipts })
      t.same(await gateway.call('eth_getBlockReceipts', number), plain.receipts)
      t.ok(isRefused(gateway))
    }
  })

  t.test('a block from before withdrawals has none', async t => {
    const withWithdrawals = ['withdrawalsRoot', 'withdrawals', 'blobGasUsed', 'excessBlobGas', 'parentBeaconBlockRoot', 'requestsHash']
    const old = await createClientBlock(without(...withWithdrawals))
    const withdrawal = { index: '0x1', validatorIndex: '0x1', address: `0x${'9'.repeat(40)}`, amount: '0x1' }
    for (const [withdrawals, isWrong] of [
      [[], false],
      [[withdrawal], true],
    ] as const) {
      const gateway = open({ ...old, block: { ...old.block, withdrawals } }, old)
      t.equal(JSON.stringify(await gateway.call('eth_getBlockByNumber', number, false)).includes('validatorIndex'), false)
      t.equal(isRefused(gateway), isWrong)
    }
  })

  t.test('the v of a transaction of a later type is its parity, or that with the chain ID, and nothing else', async t => {
    const i = 4
    const parity = Number(parityOf(plain.transactions[i]!))
    for (const [v, isWrong] of [
      [`0x${(37 + parity).toString(16)}`, false],
      [`0x${(153 + parity).toString(16)}`, true],
    ] as const) {
      const shown = without('yParity')({ ...plain.transactions[i]!, v })
      const gateway = open({ ...plain, transactions: plain.transactions.with(i, shown) })
      t.same(await gateway.call('eth_getTransactionByHash', shown['hash']!), isWrong ? plain.transactions[i] : shown)
      t.equal(isRefused(gateway), isWrong)
    }
  })
})

t.test('receipts from before 2017', async t => {
  const recorded = recordedAnswers.find(({ name }) => name.endsWith('get-block-receipts-by-hash'))!.result as readonly JsonMembers[]
  const header = { receiptsRoot: receiptsRootOf(recorded), baseFeePerGas: undefined }
  const withStatus = recorded.map(adding({ status: '0x0' }))

  t.test('have their state root, and no status that a node adds', async t => {
    t.same(coveredReceiptsOf(recorded, header), { receipts: recorded, encodedBytes: 1_200 })
    t.match(coveredReceiptsOf(withStatus, header), { receipts: recorded })
    t.equal(coveredReceiptsOf(withStatus.map(adding({})).map(without('root')), header), 'unknown', 'of a node that keeps no state root')
    t.equal(coveredReceiptsOf(recorded.map(without('root')), header), 'unknown', 'of one that leaves it out')
    t.equal(coveredReceiptsOf(recorded.slice(1), header), undefined)
  })

  t.test('newer ones have their status, and no state root that a node adds', async t => {
    const newer = { receiptsRoot: plain.block['receiptsRoot'] as string, baseFeePerGas: '0x7' }
    t.match(coveredReceiptsOf(plain.receipts.map(adding({ root: hash })), newer), { receipts: plain.receipts })
    t.equal(
      coveredReceiptsOf(
        plain.receipts.map(each => ({ ...each, status: '0x0' })),
        newer,
      ),
      undefined,
    )
  })

  t.test('of a node that keeps no state root are not proven, and it has not lied', async t => {
    const old = await createClientBlock(header => ({
      ...without(
        'baseFeePerGas',
        'withdrawalsRoot',
        'withdrawals',
        'blobGasUsed',
        'excessBlobGas',
        'parentBeaconBlockRoot',
        'requestsHash',
      )(header),
      receiptsRoot: receiptsRootOf(plain.receipts.map(each => without('status')({ ...each, root: hash }))),
    }))
    const receipts = old.receipts.map((each): JsonMembers => without('status')({ ...each, root: hash }))
    const nodes = { one: nodeOf(old), two: nodeOf({ ...old, receipts }) }
    const { call, log } = openProofs(nodes, { ...known, hasFailover: true })
    t.same(await call('eth_getBlockReceipts', number), receipts)
    t.same(log.lines, [])
  })
})

t.test('a chain that is not known to be as Ethereum', async t => {
  const chainId = 777

  t.test('has logs that are in no bloom: blocks are read until one has shown that blooms have them', async t => {
    const empty = logsBloomOf([])
    const noBloom = await createClientBlock(header => ({ ...header, logsBloom: empty }))
    const logs = noBloom.receipts.flatMap(each => each['logs'] as readonly Json[])
    const query = { fromBlock: number, toBlock: number }
    const { call, feedLogs, requests, log } = openProofs({ one: nodeOf(noBloom), two: nodeOf(noBloom) }, { ...known, chainId })
    t.same(await call('eth_getLogs', query), logs)
    t.same(await call('eth_getLogs', query), logs)
    t.same(await feedLogs(noBloom.block), logs)
    t.same(log.lines, [])
    t.equal(requests.filter(each => each.endsWith('eth_getBlockReceipts')).length, 1)
    const asEthereum = openProofs({ one: nodeOf(plain), two: nodeOf(plain) }, { ...known, chainId })
    const other = { ...query, address: `0x${'9'.repeat(40)}` }
    t.same(await asEthereum.call('eth_getLogs', other), [])
    t.equal(asEthereum.requests.filter(each => each.endsWith('eth_getBlockReceipts')).length, 1)
  })

  t.test(
    'may hash its headers otherwise: nothing is proven of them, and no node is blamed, also where a caller names the hash',
    async t => {
      const foreign = { ...plain, block: { ...plain.block, l1Header: '0x01', hash: `0x${'9'.repeat(64)}` } }
      const { call, log } = openProofs({ one: nodeOf(foreign), two: nodeOf(foreign) }, { ...known, chainId })
      const named = foreign.block.hash
      for (const [method, ...params] of [
        ['eth_getBlockByHash', named, true],
        ['eth_getBlockReceipts', named],
        ['eth_getLogs', { blockHash: named }],
        ['eth_getBalance', `0x${'c0'.repeat(20)}`, { blockHash: named }],
      ] as const)
        t.equal(await call(method, ...params), undefined, method)
      t.same(log.lines, [])
    },
  )
})

t.test('a node cannot have a proof given up by more bytes than the block has', async t => {
  const receipts = plain.receipts.map(adding({ padding: '0'.repeat(100_000) }))
  const gateway = openProofs({ one: nodeOf({ ...plain, receipts }), two: nodeOf(plain) }, { ...known, maxProofBytes: 20_000 })
  t.match(
    await gateway.call('eth_getLogs', { fromBlock: number, toBlock: number }),
    plain.receipts.flatMap(each => each['logs'] as readonly Json[]),
  )
  t.match(await gateway.reply('eth_getLogs', { fromBlock: number, toBlock: number }), { verified: 'proof' })
})

t.test('a position of a filter that accepts any topic needs one, as geth and subscriptions have it', async t => {
  const { call } = openProofs({ one: nodeOf(plain), two: nodeOf(plain) }, known)
  const logs = plain.receipts.flatMap(each => each['logs'] as readonly JsonMembers[])
  const topicsOf = (...topics: readonly Json[]) => call('eth_getLogs', { fromBlock: number, toBlock: number, topics })
  const withTopics = (count: number) => logs.filter(each => (each['topics'] as readonly Json[]).length >= count)
  t.same(await topicsOf(), logs)
  for (const any of [null, [], [null], [`0x${'a'.repeat(64)}`, null]]) {
    t.same(await topicsOf(any), withTopics(1), JSON.stringify(any))
    t.same(await topicsOf(any, null), withTopics(2), JSON.stringify(any))
  }
})

t.test('a field of a header under the name of another, which hashes alike, is refused on Ethereum', async t => {
  const later = ['withdrawalsRoot', 'withdrawals', 'blobGasUsed', 'excessBlobGas', 'parentBeaconBlockRoot', 'requestsHash']
  const { block, transactions, receipts } = await createClientBlock(without(...later))
  const renamed: JsonMembers = { ...without('baseFeePerGas')(block), requestsHash: '0x07' }
  t.equal(headerHashOf(renamed), block['hash'])
  const gateway = openVerify({ chainId: 1 })
  t.ok(await gateway.accepts('eth_getBlockByNumber', [number, true], { ...block, transactions }))
  t.notOk(await gateway.accepts('eth_getBlockByNumber', [number, true], { ...renamed, transactions }))
  const open = (of: JsonMembers) => openProofs({ one: nodeOf({ block: of, transactions, receipts }) }, known)
  t.ok(await open(block).call('eth_getBlockByHash', block['hash']!, true))
  t.equal(await open(renamed).call('eth_getBlockByHash', block['hash']!, true), undefined)
})

t.test('numbers of more than 256 bits, which zeros do not change the hash of, are no header', async t => {
  const long = { ...plain.block, timestamp: `0x${'0'.repeat(100_000)}65`, hash }
  t.throws(() => headerHashOf(long))
  t.throws(() => headerHashOf({ ...plain.block, extraData: `0x${'00'.repeat(300_000)}` }))
  const { call } = openProofs({ one: nodeOf({ ...plain, block: long }), two: nodeOf(plain) }, known)
  t.equal(await call('eth_getBlockByHash', hash, false), undefined)
})

t.test('work that takes long is done in turns of the event loop', async t => {
  t.test('JSON that is parsed and written in steps is as at once', t => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.nat({ max: 40 }), fc.constantFrom(0, 2), (value, maxBytesAtOnce, space) => {
        const text = JSON.stringify(value, null, space)
        const parsed = runAtOnce(parseSteps(Buffer.from(text), maxBytesAtOnce))
        t.equal(JSON.stringify(parsed), JSON.stringify(value))
        t.equal(runAtOnce(stringifySteps(JSON.parse(text) as Json)).toString(), JSON.stringify(value))
      }),
      { examples: [[{ 'a"\\': ['\\', '"]', {}, [], Array.from({ length: 40 }, (_, i) => i)], ['__proto__']: 1 }, 0, 2]] },
    )
    t.end()
  })

  t.test('a block with 10,000 logs, also of one transaction, leaves other calls their turns', async t => {
    for (const [maxTransactions, maxLogs] of [
      [200, 50],
      [1, 10_000],
    ] as const) {
      const block = createBlock(undefined, () => 0.99999, { maxTransactions, maxLogs, contracts })
      const node: Node = async request => answerAt(block, request)
      for (const method of ['eth_getLogs', 'eth_getBlockReceipts'] as const) {
        const { call } = openProofs(
          { one: node, two: node },
          { head: () => block.number, maxProofBytes: 1 << 28, chainId: 777, hasFailover: true },
        )
        const blockNumber = block.header['number']!
        let [turns, isDone] = [0, false]
        const countTurn = () => {
          turns += 1
          if (!isDone) setImmediate(countTurn)
        }
        setImmediate(countTurn)
        const answer = await call(method, method === 'eth_getLogs' ? { fromBlock: blockNumber, toBlock: blockNumber } : blockNumber)
        isDone = true
        t.equal((answer as readonly Json[]).length, method === 'eth_getLogs' ? 10_000 : maxTransactions)
        t.ok(turns > 40, `${method}: ${turns} turns`)
      }
    }
  })
})

/** The places of all texts in hex. */
const hexPlacesOf = (value: Json, place: readonly string[] = []): readonly (readonly string[])[] => {
  if (typeof value === 'string') return /^0x./.test(value) ? [place] : []
  return typeof value === 'object' && value !== null
    ? Object.entries(value).flatMap(([name, each]) => hexPlacesOf(each, [...place, name]))
    : []
}

/** The value with another last digit at the place. */
const withOtherDigit = (value: Json, [name, ...rest]: readonly string[]): Json => {
  if (name === undefined) return `${String(value).slice(0, -1)}${String(value).endsWith('1') ? '2' : '1'}`
  const changed = withOtherDigit((value as JsonMembers)[name]!, rest)
  return Array.isArray(value) ? (value as readonly Json[]).with(Number(name), changed) : { ...(value as JsonMembers), [name]: changed }
}

t.test('a member in which a node changes one digit is right, or left out, or one that no hash covers', async t => {
  const uncovered = ['blobGasPrice']
  const parts: Readonly<Record<string, readonly JsonMembers[]>> = { transactions: plain.transactions, receipts: plain.receipts }
  const asked: Readonly<Record<string, readonly (readonly [method: string, ...params: readonly Json[]])[]>> = {
    transactions: [['eth_getBlockByNumber', number, true]],
    receipts: [
      ['eth_getBlockReceipts', number],
      ['eth_getLogs', { fromBlock: number, toBlock: number }],
    ],
  }
  const right = new Map(answersOf(plain).map(([method, , value]) => [method, value]))
  right.set('eth_getBlockByNumber', { ...plain.block, transactions: plain.transactions })
  let count = 0
  for (const [part, list] of Object.entries(parts))
    for (const place of hexPlacesOf(list)) {
      const client: ClientBlock = { ...plain, [part]: withOtherDigit(list, place) }
      const { call } = openProofs({ one: nodeOf(client), two: nodeOf(plain) }, { ...known, hasFailover: true })
      for (const [method, ...params] of asked[part]!) {
        const answer = await call(method, ...params)
        const expected = uncovered.includes(place.at(-1)!) ? answer : right.get(method)!
        if (!isPartOf(answer, expected)) throw new Error(`${part} ${place.join(' ')}: ${method}: ${JSON.stringify(answer)}`)
        count += 1
      }
    }
  t.ok(count > 400, `${count} calls`)
})

/** Whether the answer says nothing else: members may be missing. */
const isPartOf = (answer: Json | undefined, expected: Json | undefined): boolean => {
  if (answer === undefined || typeof answer !== 'object' || answer === null) return answer === expected
  if (typeof expected !== 'object' || expected === null || Array.isArray(answer) !== Array.isArray(expected)) return false
  if (Array.isArray(answer) && answer.length !== (expected as readonly Json[]).length) return false
  return Object.entries(answer).every(([name, each]) => isPartOf(each, (expected as JsonMembers)[name]))
}
