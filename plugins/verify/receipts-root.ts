import type { Json, JsonObject } from '../../src/plugin/plugin.ts'
import { MalformedMember, toBytes, toHex, toList, toObject, toQuantityBytes } from './hex.ts'
import { encodeRlp } from './rlp.ts'
import { trieRootOf } from './trie-root.ts'

const knownTypes: ReadonlySet<Json | undefined> = new Set(['0x0', '0x1', '0x2', '0x3', '0x4'])

/** Of the OP stack. Receipts without a version are from before its fork Canyon, and in the root in another way. */
const isDeposit = ({ type, depositReceiptVersion }: JsonObject): boolean => type === '0x7e' && typeof depositReceiptVersion === 'string'

/** Networks have types of their own, whose receipts are encoded in other ways. */
export const hasKnownType = (receipt: JsonObject): boolean => knownTypes.has(receipt['type'] ?? '0x0') || isDeposit(receipt)

/** The root of these receipts of a block, as in its header. Throws MalformedMember. */
export const receiptsRootOf = (receipts: readonly JsonObject[]): string => toHex(trieRootOf(receipts.map(encodeReceipt)))

/** Until 2017 receipts had the state root in place of the status. */
const encodeReceipt = (receipt: JsonObject): Buffer => {
  const { status, root, cumulativeGasUsed, logsBloom, logs } = receipt
  if (!hasKnownType(receipt)) throw new MalformedMember()
  const encoding = encodeRlp([
    status === undefined || status === null ? toBytes(root) : toQuantityBytes(status),
    toQuantityBytes(cumulativeGasUsed),
    toBytes(logsBloom),
    toList(logs).map(encodeLog),
    ...(isDeposit(receipt) ? [toQuantityBytes(receipt['depositNonce']), toQuantityBytes(receipt['depositReceiptVersion'])] : []),
  ])
  const type = toQuantityBytes(receipt['type'] ?? '0x0')
  return Buffer.concat([type, encoding])
}

const encodeLog = (log: Json) => {
  const { address, topics, data } = toObject(log)
  return [toBytes(address), toList(topics).map(toBytes), toBytes(data)]
}
