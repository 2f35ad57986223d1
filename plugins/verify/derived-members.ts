import { keccak256 } from '../../src/plugin/plugin.ts'
import type { Json, JsonObject } from '../../src/plugin/plugin.ts'
import type { Finding } from './chain-rules.ts'
import { isAbsent, isSameHex, toBigInt, toBytes, toHex, toList, toObject, toQuantityBytes } from './hex.ts'
import { holds, withdrawalsRootOf } from './result-checks.ts'
import { encodeRlp } from './rlp.ts'
import { isDeposit, typeNameOf } from './transaction-encoding.ts'
import type { TrustedHeader } from './block-header.ts'

// Members of transactions and receipts that no root covers, and that follow from what roots cover. How they follow differs between chains.

const toFinding = (rule: string, number: number, check: () => boolean, isEvidence = true): Finding => ({
  rule,
  holds: holds(check),
  block: number,
  knownFor: 'Ethereum',
  isEvidence,
  isDerived: true,
})

/** Networks without withdrawals have an empty list of them, and may use the root for something else. */
export const withdrawalsFinding = ({ withdrawals, withdrawalsRoot }: JsonObject, { number }: TrustedHeader): Finding => {
  const isEmpty = isAbsent(withdrawals) || (Array.isArray(withdrawals) && withdrawals.length === 0)
  const finding = toFinding(
    'a block has the withdrawals of its root',
    number,
    // Some nodes write null for an empty list.
    () => (isAbsent(withdrawalsRoot) ? isEmpty : isSameHex(withdrawalsRootOf(withdrawals ?? []), withdrawalsRoot)),
    !isEmpty,
  )
  return { ...finding, isDerived: !isEmpty }
}

export const transactionFindings = (transaction: JsonObject, { number, timestamp, baseFeePerGas }: TrustedHeader): readonly Finding[] => {
  const { blockTimestamp, gasPrice } = transaction
  return [
    toFinding(
      'the timestamp of a transaction is that of its block',
      number,
      () => isAbsent(blockTimestamp) || toBigInt(blockTimestamp) === BigInt(timestamp),
      !isAbsent(blockTimestamp),
    ),
    toFinding(
      'the gas price of a transaction follows from its fees',
      number,
      () => isAbsent(gasPrice) || toBigInt(gasPrice) === priceOf(transaction, baseFeePerGas),
      hasDynamicFee(transaction),
    ),
  ]
}

/**
 * The transaction without a gas price that is its maximum, and not what it cost: `gasPrice` of a transaction that is in no block yet, and some clients keep it
 * when the transaction is. Clients differ there, so that it is no lie. Throws MalformedMember.
 */
export const withoutPendingPrice = (transaction: JsonObject, { baseFeePerGas }: TrustedHeader): JsonObject => {
  const { gasPrice, ...others } = transaction
  if (isAbsent(gasPrice) || !hasDynamicFee(transaction) || baseFeePerGas === undefined) return transaction
  const price = toBigInt(gasPrice)
  return price === toBigInt(transaction['maxFeePerGas']) && price !== priceOf(transaction, baseFeePerGas) ? others : transaction
}

/** The receipt without a time of its logs that is 0, which says nothing: some versions of clients do not set it. */
export const withoutUnsetTimes = (receipt: JsonObject, { timestamp }: TrustedHeader): JsonObject => {
  const logs = toList(receipt['logs']).map(toObject)
  const isUnset = ({ blockTimestamp }: JsonObject): boolean => isZero(blockTimestamp) && !isZero(timestamp)
  if (!logs.some(isUnset)) return receipt
  return {
    ...receipt,
    logs: logs.map(log => {
      const { blockTimestamp: _, ...others } = log
      return isUnset(log) ? others : log
    }),
  }
}

const isZero = (value: Json | undefined): boolean => value === 0 || (typeof value === 'string' && /^0x0+$/.test(value))

const hasDynamicFee = ({ maxFeePerGas }: JsonObject): boolean => !isAbsent(maxFeePerGas)

/** `sender`: that of the signature. Networks have transactions without one. */
export const senderFinding = ({ from }: JsonObject, sender: string | undefined, { number }: TrustedHeader): Finding =>
  toFinding('the sender of a transaction is that of its signature', number, () => sender !== undefined && isSameHex(from, sender))

/** What a unit of gas costs in a block. */
const priceOf = (transaction: JsonObject, baseFeePerGas: string | undefined): bigint => {
  if (isDeposit(transaction)) return 0n
  if (!hasDynamicFee(transaction) || baseFeePerGas === undefined) return toBigInt(transaction['gasPrice'])
  const [max, tipped] = [toBigInt(transaction['maxFeePerGas']), BigInt(baseFeePerGas) + toBigInt(transaction['maxPriorityFeePerGas'])]
  return tipped < max ? tipped : max
}

/** `before`: the receipt before it in the block. */
export const receiptFindings = (
  receipt: JsonObject,
  before: JsonObject | undefined,
  transaction: JsonObject,
  { number, timestamp, baseFeePerGas }: TrustedHeader,
): readonly Finding[] => {
  const gasBefore = toBigInt(before?.['cumulativeGasUsed'] ?? '0x0')
  const { effectiveGasPrice, gasUsed, cumulativeGasUsed, contractAddress, blobGasUsed } = receipt
  const logs = toList(receipt['logs']).map(toObject)
  const timestamps = logs.map(({ blockTimestamp }) => blockTimestamp).filter(each => !isAbsent(each))
  return [
    toFinding(
      'the gas of a receipt is what the gas of its block has grown by',
      number,
      () => toBigInt(gasUsed) === toBigInt(cumulativeGasUsed) - gasBefore,
      gasBefore > 0n,
    ),
    toFinding(
      'the gas price of a receipt follows from the fees of its transaction',
      number,
      () => isAbsent(effectiveGasPrice) || toBigInt(effectiveGasPrice) === priceOf(transaction, baseFeePerGas),
      hasDynamicFee(transaction),
    ),
    toFinding(
      'a receipt has the type, the sender and the recipient of its transaction',
      number,
      () =>
        typeNameOf(receipt) === typeNameOf(transaction) &&
        (isAbsent(receipt['from']) || isSameHex(receipt['from'], transaction['from'])) &&
        (receipt['to'] === undefined || isSameHex(receipt['to'], transaction['to'] ?? null)),
    ),
    toFinding(
      'the address of a contract follows from its creator',
      number,
      // Some nodes name no contract where its creation has failed.
      () =>
        isSameHex(contractAddress ?? null, isAbsent(transaction['to']) ? contractAddressOf(transaction) : null) ||
        (isAbsent(contractAddress) && hasFailed(receipt)),
      isAbsent(transaction['to']),
    ),
    toFinding(
      'the blob gas of a receipt is that of the blobs of its transaction',
      number,
      () => isAbsent(blobGasUsed) || toBigInt(blobGasUsed) === gasPerBlob * BigInt(blobCountOf(transaction)),
      blobCountOf(transaction) > 0,
    ),
    toFinding(
      'the timestamp of a log is that of its block',
      number,
      () => timestamps.every(each => toBigInt(each) === BigInt(timestamp)),
      timestamps.length > 0,
    ),
  ]
}

const hasFailed = ({ status }: JsonObject): boolean => !isAbsent(status) && toBigInt(status) === 0n

const gasPerBlob = 131_072n

const blobCountOf = ({ blobVersionedHashes }: JsonObject): number =>
  isAbsent(blobVersionedHashes) ? 0 : toList(blobVersionedHashes).length

const contractAddressOf = ({ from, nonce }: JsonObject): string =>
  toHex(keccak256(encodeRlp([toBytes(from), toQuantityBytes(nonce)])).subarray(12))
