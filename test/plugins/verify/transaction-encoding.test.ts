import fc from 'fast-check'
import { parseTransaction, serializeTransaction } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import type { TransactionSerializable } from 'viem'
import t from '../../support/tap.ts'
import { receiptsRootOf } from '../../../plugins/verify/receipts-root.ts'
import { encodeTransaction, isEncodable } from '../../../plugins/verify/transaction-encoding.ts'
import { senderOf } from '../../../plugins/verify/transaction-sender.ts'
import { trieRootOf } from '../../../plugins/verify/trie-root.ts'
import { keccak256 } from '../../../src/plugin/plugin.ts'
import { toHexQuantity } from '../../../src/util/json.ts'
import type { JsonMembers } from './verify-fixture.ts'

const hex = (bytes: number) => fc.uint8Array({ minLength: bytes, maxLength: bytes }).map(toHex)
const toHex = (bytes: Uint8Array): `0x${string}` => `0x${Buffer.from(bytes).toString('hex')}`
const quantity = fc.bigInt({ min: 0n, max: (1n << 80n) - 1n })
const signature = fc
  .record({ r: hex(32), s: hex(32), yParity: fc.constantFrom(0, 1) })
  .filter(({ r, s }) => !/^0x00/.test(r) && !/^0x00/.test(s))

const common = {
  nonce: fc.nat(),
  gas: quantity,
  to: hex(20),
  value: quantity,
  data: fc.uint8Array({ maxLength: 70 }).map(toHex),
  chainId: fc.integer({ min: 1, max: 1 << 20 }),
}
const accessList = fc.array(fc.record({ address: hex(20), storageKeys: fc.array(hex(32), { maxLength: 2 }) }), { maxLength: 2 })
const fees = fc.tuple(quantity, quantity).map(([tip, more]) => ({ maxFeePerGas: tip + more, maxPriorityFeePerGas: tip }))
const authorization = fc.record({ address: hex(20), chainId: fc.nat(1 << 20), nonce: fc.nat() })
const blobs = fc.record({
  maxFeePerBlobGas: quantity,
  blobVersionedHashes: fc.array(
    hex(31).map(text => `0x01${text.slice(2)}` as const),
    { minLength: 1, maxLength: 3 },
  ),
})

/** Of each type, as viem takes it. */
const transactions: readonly fc.Arbitrary<object>[] = [
  fc.record({ ...common, type: fc.constant('legacy'), gasPrice: quantity }),
  fc.record({ ...common, type: fc.constant('eip2930'), gasPrice: quantity, accessList }),
  fc.tuple(fc.record({ ...common, type: fc.constant('eip1559'), accessList }), fees).map(([one, two]) => ({ ...one, ...two })),
  fc
    .tuple(fc.record({ ...common, type: fc.constant('eip4844'), accessList }), fees, blobs)
    .map(([one, two, three]) => ({ ...one, ...two, ...three })),
  fc
    .tuple(
      fc.record({ ...common, type: fc.constant('eip7702'), accessList }),
      fees,
      fc.array(fc.tuple(authorization, signature), { maxLength: 2 }),
    )
    .map(([one, two, list]) => ({ ...one, ...two, authorizationList: list.map(([each, signed]) => ({ ...each, ...signed })) })),
]

const typeNumbers: Readonly<Record<string, string>> = { legacy: '0x0', eip2930: '0x1', eip1559: '0x2', eip4844: '0x3', eip7702: '0x4' }

/** As a node writes it. */
const toJson = (value: unknown): JsonMembers =>
  JSON.parse(
    JSON.stringify(value, (_, each: unknown) => (typeof each === 'number' || typeof each === 'bigint' ? toHexQuantity(each) : each)),
  )

/** A serialized transaction as a node writes it. */
const ofSerialized = (transaction: object, serialized: `0x${string}`): JsonMembers => {
  const { type, v, r, s, yParity } = parseTransaction(serialized as Parameters<typeof parseTransaction>[0])
  const { data, ...members } = toJson({ ...transaction, r, s, yParity, ...(type === 'legacy' && { v }) })
  return { ...members, input: data!, type: typeNumbers[type ?? '']! }
}

t.test('a transaction of each type is encoded as viem does', async t => {
  for (const arbitrary of transactions) {
    fc.assert(
      fc.property(arbitrary, signature, (transaction, { r, s, yParity }) => {
        const serialized = serializeTransaction(transaction as TransactionSerializable, { r, s, yParity, v: BigInt(27 + yParity) })
        t.equal(toHex(encodeTransaction(ofSerialized(transaction, serialized))), serialized)
      }),
      { numRuns: 40 },
    )
  }
})

t.test('the sender of a transaction of each type is the account that has signed it; with another parity it is not', async t => {
  const account = privateKeyToAccount(`0x${'7'.repeat(64)}`)
  const legacyWithoutChain = transactions[0]!.map(transaction => ({ ...transaction, chainId: undefined }))
  for (const arbitrary of [...transactions, legacyWithoutChain]) {
    await fc.assert(
      fc.asyncProperty(arbitrary, async transaction => {
        const serialized = await account.signTransaction(transaction as Parameters<typeof account.signTransaction>[0])
        const json = ofSerialized(transaction, serialized)
        t.equal(await senderOf(json), account.address.toLowerCase())
        const { v, yParity } = json
        const other =
          v === undefined
            ? { yParity: yParity === '0x0' ? '0x1' : '0x0' }
            : { v: toHexQuantity(Number(v) % 2 === 0 ? Number(v) - 1 : Number(v) + 1) }
        t.not(await senderOf({ ...json, ...other }), account.address.toLowerCase())
      }),
      { numRuns: 10 },
    )
  }
  for (const [r, s] of [
    ['0x0', '0x0'],
    [`0x${'f'.repeat(64)}`, '0x1'],
    [`0x${'1'.repeat(70)}`, '0x1'],
  ] as const)
    t.equal(
      await senderOf({ type: '0x0', nonce: '0x0', gasPrice: '0x0', gas: '0x0', value: '0x0', input: '0x', v: '0x1b', r, s }),
      undefined,
    )
})

t.test('a deposit of the OP stack, and its receipt, have the roots that their block has', async t => {
  // The only transaction of a block of a test network of the OP stack, number 0x112.
  const deposit = {
    type: '0x7e',
    hash: '0x13a644af4f64ce801dcd57faa823e8952f2290b810fdd31995dda62977ed3df1',
    sourceHash: '0x5a1b66228a26547e2ce6fe1aa734d2c34e062e42ccd5710463e6987890f1ad5d',
    from: '0xdeaddeaddeaddeaddeaddeaddeaddeaddead0001',
    to: '0x4200000000000000000000000000000000000015',
    mint: '0x0',
    value: '0x0',
    gas: '0xf4240',
    input:
      '0x015d8eb90000000000000000000000000000000000000000000000000000000001267f330000000000000000000000000000000000000000000000000000000065da6073000000000000000000000000000000000000000000000000000000075d3f861097c24796a4f639846a6a3ea3a59c11de8d89e11f551bae8feca9271a78926d420000000000000000000000000000000000000000000000000000000000000004000000000000000000000000415c8893d514f9bc5211d36eeda4183226b84aa700000000000000000000000000000000000000000000000000000000000000bc00000000000000000000000000000000000000000000000000000000000a6fe0',
    ...{ r: '0x0', s: '0x0', v: '0x0' },
  }
  t.ok(isEncodable(deposit))
  t.equal(toHex(keccak256(encodeTransaction(deposit))), deposit.hash)
  t.equal(toHex(trieRootOf([encodeTransaction(deposit)])), '0xb01a2ad2c1ceb76f2edcdc02f2e0453c52e24c421fb04132cdfc0da5b70a593e')
  const receipt = {
    ...{ type: '0x7e', status: '0x1', cumulativeGasUsed: '0xb76d', logs: [], logsBloom: `0x${'0'.repeat(512)}` },
    ...{ depositNonce: '0x111', depositReceiptVersion: '0x1' },
  }
  t.equal(receiptsRootOf([receipt]), '0x8c303881b3e408cc739f55ef3e5133075d552cbec9ee987aff6b71f58cf291ee')
})
