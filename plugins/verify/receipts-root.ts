import type { Json, JsonObject } from '../../src/plugin/plugin.ts'
import type { TrustedHeader } from './block-header.ts'
import { MalformedMember, isAbsent, toBytes, toHex, toList, toObject, toQuantityBytes } from './hex.ts'
import { logsBloomOf } from './logs-bloom.ts'
import { encodeRlp } from './rlp.ts'
import type { RlpItem } from './rlp.ts'
import { typeNameOf } from './transaction-encoding.ts'
import { trieRootOf, trieRootSteps } from './trie-root.ts'
import { runAtOnce } from './work-turns.ts'
import type { Steps } from './work-turns.ts'

const knownTypes: ReadonlySet<string | undefined> = new Set(['0x0', '0x1', '0x2', '0x3', '0x4'])

/** A deposit of the OP stack since its fork Canyon. */
const hasVersion = ({ depositReceiptVersion }: JsonObject): boolean => typeof depositReceiptVersion === 'string'

/**
 * Whether the encoding of such a receipt is known here: networks have types of their own. A deposit of the OP stack has its nonce and its version in the root,
 * and none of both before Canyon, also where the receipt has the nonce, as since Regolith.
 */
export const isEncodableIn = (receipt: JsonObject, { hasWithdrawalsRoot }: Pick<TrustedHeader, 'hasWithdrawalsRoot'>): boolean =>
  knownTypes.has(typeNameOf(receipt)) || (isOfDeposit(receipt) && hasVersion(receipt) === hasWithdrawalsRoot)

const isOfDeposit = (receipt: JsonObject): boolean => typeNameOf(receipt) === '0x7e'

/** The root of these receipts of a block, as in its header. Throws MalformedMember. */
export const receiptsRootOf = (receipts: readonly JsonObject[]): string =>
  toHex(trieRootOf(receipts.map(receipt => runAtOnce(receiptSteps(receipt)))))

interface CoveredReceipts {
  /** Without what the root does not cover. */
  readonly receipts: readonly JsonObject[]
  /** Of their encodings: the same whichever node has sent them. */
  readonly encodedBytes: number
}

/**
 * The receipts that the root covers, with their status, or until 2017 the state root in its place. Some nodes have both, of which one is none of the receipt.
 * `unknown` where nodes that keep no state root have the status of an old receipt; undefined where the root is of others. Throws MalformedMember.
 */
export const coveredReceiptsOf = (receipts: readonly JsonObject[], header: HeaderOfReceipts): CoveredReceipts | 'unknown' | undefined =>
  runAtOnce(coveredReceiptsSteps(receipts, header))

type HeaderOfReceipts = Pick<TrustedHeader, 'receiptsRoot' | 'baseFeePerGas'>

export function* coveredReceiptsSteps(
  receipts: readonly JsonObject[],
  { receiptsRoot, baseFeePerGas }: HeaderOfReceipts,
): Steps<CoveredReceipts | 'unknown' | undefined> {
  // What has a fee of its block is not that old.
  const mayBeOld = baseFeePerGas === undefined && receipts.some(({ root }) => isAbsent(root))
  if (mayBeOld && receipts.some(({ status, root }) => isAbsent(status) && isAbsent(root))) return 'unknown'
  for (const candidate of receipts.some(hasBoth) ? [without(receipts, 'root'), without(receipts, 'status')] : [receipts]) {
    const encodings: Buffer[] = []
    for (const receipt of candidate) {
      encodings.push(yield* receiptSteps(receipt))
    }
    if (toHex(yield* trieRootSteps(encodings)) === receiptsRoot) return { receipts: candidate, encodedBytes: lengthOf(encodings) }
  }
  return mayBeOld ? 'unknown' : undefined
}

export const lengthOf = (encodings: readonly Buffer[]): number => encodings.reduce((sum, { length }) => sum + length, 0)

const hasBoth = ({ status, root }: JsonObject): boolean => !isAbsent(status) && !isAbsent(root)

const without = (receipts: readonly JsonObject[], name: 'root' | 'status'): readonly JsonObject[] =>
  receipts.map(receipt => (hasBoth(receipt) ? Object.fromEntries(Object.entries(receipt).filter(([member]) => member !== name)) : receipt))

/** The encoding of a receipt. */
function* receiptSteps(receipt: JsonObject): Steps<Buffer> {
  const { status, root, cumulativeGasUsed, logsBloom } = receipt
  const logs = toList(receipt['logs'])
  const logItems: RlpItem[] = []
  for (const log of logs) {
    logItems.push(encodeLog(log))
    yield logBytes
  }
  const encoding = encodeRlp([
    isAbsent(status) ? toStateRoot(root) : toStatus(status),
    toQuantityBytes(cumulativeGasUsed),
    // Some providers leave it out.
    toBytes(isAbsent(logsBloom) ? logsBloomOf(logs) : logsBloom),
    logItems,
    ...(isOfDeposit(receipt) && hasVersion(receipt)
      ? [toQuantityBytes(receipt['depositNonce']), toQuantityBytes(receipt['depositReceiptVersion'])]
      : []),
  ])
  yield encoding.length
  return Buffer.concat([toQuantityBytes(typeNameOf(receipt)), encoding])
}

/** Of 32 bytes, so that no status is shown as a root. */
const toStateRoot = (root: Json | undefined): Buffer => {
  const bytes = toBytes(root)
  if (bytes.length !== stateRootBytes) throw new MalformedMember()
  return bytes
}

const stateRootBytes = 32

/** 0 or 1, so that no root is shown as a status. */
const toStatus = (status: Json): Buffer => {
  const bytes = toQuantityBytes(status)
  if (bytes.length > 1 || (bytes[0] ?? 1) !== 1) throw new MalformedMember()
  return bytes
}

/** As which a log counts that is encoded. */
const logBytes = 512

const encodeLog = (log: Json): RlpItem => {
  const { address, topics, data } = toObject(log)
  return [toBytes(address), toList(topics).map(toBytes), toBytes(data)]
}
