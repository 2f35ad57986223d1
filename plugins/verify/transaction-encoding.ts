import type { Json, JsonObject } from '../../src/plugin/plugin.ts'
import { parseHexQuantity, toHexQuantity } from '../../src/plugin/plugin.ts'
import { MalformedMember, isAbsent, toBigInt, toBytes, toList, toObject, toQuantityBytes } from './hex.ts'
import { encodeRlp } from './rlp.ts'
import type { RlpItem } from './rlp.ts'

type ToItem = (transaction: JsonObject) => RlpItem

const quantity =
  (name: string): ToItem =>
  transaction =>
    toQuantityBytes(transaction[name])

/** 0 where it is absent. */
const optionalQuantity =
  (name: string): ToItem =>
  transaction =>
    toQuantityBytes(transaction[name] ?? '0x0')

const bytesOf =
  (name: string): ToItem =>
  transaction =>
    toBytes(transaction[name])

const isSystem: ToItem = ({ isSystemTx }) => Buffer.from(isSystemTx === true ? [1] : [])

/** A transaction that creates a contract has no recipient. */
const recipient: ToItem = ({ to }) => (to === null || to === undefined ? Buffer.alloc(0) : toBytes(to))

const input: ToItem = transaction => toBytes(transaction['input'] ?? transaction['data'])

/** Some nodes write null, or nothing, for an empty list. */
const accessList: ToItem = transaction =>
  toList(transaction['accessList'] ?? []).map(entry => {
    const { address, storageKeys } = toObject(entry)
    return [toBytes(address), toList(storageKeys ?? []).map(toBytes)]
  })

const blobHashes: ToItem = ({ blobVersionedHashes }) => toList(blobVersionedHashes).map(toBytes)

/** Some nodes write `v` alone, and some as that of an old transaction. */
const parityOf = (members: JsonObject): Buffer => {
  const { yParity, v } = members
  if (!isAbsent(yParity)) return toQuantityBytes(yParity)
  if (!isParity(members)) throw new MalformedMember()
  return toQuantityBytes(toHexQuantity(parityOfV(toBigInt(v))))
}

/** Whether `v` says nothing besides the parity, and perhaps the chain. */
const isParity = ({ v, chainId }: JsonObject): boolean => {
  const number = toBigInt(v)
  return [0n, 1n, 27n, 28n].includes(number) || (!isAbsent(chainId) && chainIdOfV(number) === toBigInt(chainId))
}

/** Old transactions have 27 or 28, and since EIP-155 35 or 36 and twice the chain ID. */
const parityOfV = (v: bigint): bigint => (v <= 1n ? v : 1n - (v % 2n))

const authorizations: ToItem = ({ authorizationList }) =>
  toList(authorizationList).map(entry => {
    const authorization = toObject(entry)
    const { chainId, address, nonce, r, s } = authorization
    return [
      toQuantityBytes(chainId),
      toBytes(address),
      toQuantityBytes(nonce),
      parityOf(authorization),
      toQuantityBytes(r),
      toQuantityBytes(s),
    ]
  })

const legacyFee = [quantity('gasPrice')]
const dynamicFee = [quantity('maxPriorityFeePerGas'), quantity('maxFeePerGas')]
const body = [quantity('gas'), recipient, quantity('value'), input]
const signature = [quantity('r'), quantity('s')]
const start = [quantity('chainId'), quantity('nonce')]
const end = [parityOf, ...signature]

/** The fields of each type of transaction, in the order of its encoding. */
const fieldsByType: Readonly<Record<string, readonly ToItem[]>> = {
  '0x0': [quantity('nonce'), ...legacyFee, ...body, quantity('v'), ...signature],
  '0x1': [...start, ...legacyFee, ...body, accessList, ...end],
  '0x2': [...start, ...dynamicFee, ...body, accessList, ...end],
  '0x3': [...start, ...dynamicFee, ...body, accessList, quantity('maxFeePerBlobGas'), blobHashes, ...end],
  '0x4': [...start, ...dynamicFee, ...body, accessList, authorizations, ...end],
  // Of the OP stack, as its blocks have it: what the chain itself sends has no signature.
  '0x7e': [
    bytesOf('sourceHash'),
    bytesOf('from'),
    recipient,
    optionalQuantity('mint'),
    quantity('value'),
    quantity('gas'),
    isSystem,
    input,
  ],
}

/** A transaction of the OP stack that comes from the chain below. */
export const isDeposit = (transaction: JsonObject): boolean => typeOf(transaction) === '0x7e'

/** What a transaction of Ethereum has beside the fields of its type. */
const otherMembers = [
  'hash',
  'blockHash',
  'blockNumber',
  'blockTimestamp',
  'transactionIndex',
  'from',
  'type',
  'gasPrice',
  'data',
  'v',
  'yParity',
]

const memberNames = ['nonce', 'gas', 'to', 'value', 'input', 'r', 's', 'chainId', 'accessList', 'maxPriorityFeePerGas', 'maxFeePerGas']
const laterMembers = ['maxFeePerBlobGas', 'blobVersionedHashes', 'authorizationList']

/** All members of a transaction of Ethereum, but for its inner ones. */
export const transactionMembers: readonly string[] = [...otherMembers, ...memberNames, ...laterMembers]

const knownMembers: ReadonlySet<string> = new Set(transactionMembers)

/** What a deposit has in addition. Networks that add members to it may hash them too. */
const depositMembers: ReadonlySet<string> = new Set([...knownMembers, 'sourceHash', 'mint', 'isSystemTx', 'depositReceiptVersion'])

/** The type of a transaction or its receipt, without zeros before it. Nodes from before EIP-2718 write none. */
export const typeNameOf = ({ type }: JsonObject): string | undefined => {
  const number = parseHexQuantity(type ?? '0x0')
  return number === undefined ? undefined : toHexQuantity(number)
}

/** Undefined for a type that is not known here. */
const typeOf = (transaction: JsonObject): string | undefined => {
  const name = typeNameOf(transaction)
  return name !== undefined && Object.hasOwn(fieldsByType, name) ? name : undefined
}

/** Whether the encoding of such a transaction is known here. */
export const hasKnownEncoding = (transaction: JsonObject): boolean =>
  typeOf(transaction) !== undefined && (!isDeposit(transaction) || Object.keys(transaction).every(name => depositMembers.has(name)))

/** The type of a transaction, with the members that no transaction of Ethereum has; undefined for a type that is not known here. */
export const transactionShapeOf = (transaction: JsonObject): { readonly type: string; readonly isOfEthereum: boolean } | undefined => {
  const type = typeOf(transaction)
  if (type === undefined) return undefined
  const unknown = Object.keys(transaction).filter(name => !knownMembers.has(name))
  return { type: [type, ...unknown.sort()].join(' '), isOfEthereum: unknown.length === 0 && !isDeposit(transaction) }
}

/**
 * Whether the transaction has a signature of its sender. Networks have transactions of their own without one, whose hash is of something
 * else: their `r` and `s` are 0, 1 or an address.
 */
export const isSigned = ({ r, s }: JsonObject): boolean => [r, s].every(isOfSignature)

/** Whether its encoding is known here, and is what the transaction is hashed as. */
export const isEncodable = (transaction: JsonObject): boolean =>
  typeOf(transaction) !== undefined && (isSigned(transaction) || isDeposit(transaction))

/** One in 2^88 numbers of signatures is shorter. */
const minSignatureDigits = 42

const isOfSignature = (value: Json | undefined): boolean =>
  typeof value === 'string' && value.replace(/^0x0*/, '').length > minSignatureDigits

/** The last fields of each type are those of the signature. */
const signatureFieldCount = 3

/** The bytes that the sender of a transaction has signed, and what of the signature tells which of two keys it is of. Throws MalformedMember. */
export const signedPartOf = (transaction: JsonObject): { readonly bytes: Buffer; readonly parity: 0 | 1 } => {
  const type = typeOf(transaction)
  const fields = type && fieldsByType[type]
  if (!fields) throw new MalformedMember()
  const items = fields.slice(0, -signatureFieldCount).map(toItem => toItem(transaction))
  if (type !== '0x0') {
    const parity = parityOf(transaction)
    return { bytes: Buffer.concat([toQuantityBytes(type), encodeRlp(items)]), parity: parity.length === 0 ? 0 : 1 }
  }
  const v = toBigInt(transaction['v'])
  const chainId = chainIdOfV(v)
  const suffix = chainId === undefined ? [] : [toQuantityBytes(toHexQuantity(chainId)), Buffer.alloc(0), Buffer.alloc(0)]
  return { bytes: encodeRlp([...items, ...suffix]), parity: v % 2n === 1n ? 0 : 1 }
}

/** From EIP-155 on, `v` has the chain ID. */
const minReplayProtectedV = 35n

const chainIdOfV = (v: bigint): bigint | undefined => (v < minReplayProtectedV ? undefined : (v - minReplayProtectedV) / 2n)

/** The bytes that a transaction is hashed as, and is in the trie of its block as. Throws MalformedMember. */
export const encodeTransaction = (transaction: JsonObject): Buffer => {
  const type = typeOf(transaction)
  const fields = type && fieldsByType[type]
  if (!fields) throw new MalformedMember()
  const encoding = encodeRlp(fields.map(toItem => toItem(transaction)))
  return type === '0x0' ? encoding : Buffer.concat([toQuantityBytes(type), encoding])
}

/** The types that have a member. The hash of a transaction of another type does not cover it. */
const typesWith: Readonly<Record<string, readonly string[]>> = {
  accessList: ['0x1', '0x2', '0x3', '0x4'],
  maxFeePerGas: ['0x2', '0x3', '0x4'],
  maxPriorityFeePerGas: ['0x2', '0x3', '0x4'],
  maxFeePerBlobGas: ['0x3'],
  blobVersionedHashes: ['0x3'],
  authorizationList: ['0x4'],
}

const saysSomething = (value: Json | undefined): boolean => !isAbsent(value) && !(Array.isArray(value) && value.length === 0)

/**
 * The transaction without what its hash, which is that of its encoding, does not show: members of other types, and a second name of a member with another
 * value. Clients differ in what they write there, so that it is no lie.
 */
export const withoutUncovered = (transaction: JsonObject): JsonObject => {
  if (isDeposit(transaction)) return withoutSignature(transaction)
  const type = typeOf(transaction) ?? ''
  const uncovered = Object.keys(transaction).filter(name => {
    const types = Object.hasOwn(typesWith, name) ? typesWith[name] : undefined
    return types !== undefined && !types.includes(type) && saysSomething(transaction[name])
  })
  const { v, yParity, chainId, input: bytes, data } = transaction
  const isOfV = (value: Json, expected: bigint | undefined): boolean => expected !== undefined && toBigInt(value) === expected
  if (type === '0x0') {
    if (!isAbsent(yParity) && !isOfV(yParity, parityOfV(toBigInt(v)))) uncovered.push('yParity')
    if (!isAbsent(chainId) && !isOfV(chainId, chainIdOfV(toBigInt(v)))) uncovered.push('chainId')
  } else if (hasOtherV(transaction)) uncovered.push('v')
  if (!isAbsent(bytes) && !isAbsent(data) && !toBytes(bytes).equals(toBytes(data))) uncovered.push('data')
  const covered =
    uncovered.length === 0 ? transaction : Object.fromEntries(Object.entries(transaction).filter(([name]) => !uncovered.includes(name)))
  return type === '0x4' ? withoutOtherV(covered) : covered
}

const signatureMembers = ['v', 'r', 's', 'yParity']

/** A deposit has none; nodes write zeros. */
const withoutSignature = (deposit: JsonObject): JsonObject => {
  const isWrong = (name: string): boolean =>
    signatureMembers.includes(name) && saysSomething(deposit[name]) && !/^0x0*$/.test(String(deposit[name]))
  return Object.keys(deposit).some(isWrong) ? Object.fromEntries(Object.entries(deposit).filter(([name]) => !isWrong(name))) : deposit
}

/** Beside a parity, which is what the hash covers: a `v` that says something else. */
const hasOtherV = (members: JsonObject): boolean => {
  const { v, yParity } = members
  return !isAbsent(v) && !isAbsent(yParity) && !(isParity(members) && toBigInt(yParity) === parityOfV(toBigInt(v)))
}

const withoutOtherV = (transaction: JsonObject): JsonObject => {
  const list = toList(transaction['authorizationList']).map(toObject)
  if (!list.some(hasOtherV)) return transaction
  const authorizationList = list.map(authorization => {
    const { v: _, ...others } = authorization
    return hasOtherV(authorization) ? others : authorization
  })
  return { ...transaction, authorizationList }
}
