import type { Json, JsonObject } from '../../src/plugin/plugin.ts'
import type { TrustedHeader } from './block-header.ts'
import { toBytes, toHex, toList, toObject, toQuantityBytes } from './hex.ts'
import { encodeRlp } from './rlp.ts'
import { trieRootOf } from './trie-root.ts'

const knownTypes: ReadonlySet<Json | undefined> = new Set(['0x0', '0x1', '0x2', '0x3', '0x4'])

/** A deposit of the OP stack since its fork Canyon. */
const hasVersion = ({ depositReceiptVersion }: JsonObject): boolean => typeof depositReceiptVersion === 'string'

/**
 * Whether the encoding of such a receipt is known here: networks have types of their own. A deposit of the OP stack has its nonce and its version in the root,
 * and none of both before Canyon, also where the receipt has the nonce, as since Regolith.
 */
export const isEncodableIn = (receipt: JsonObject, { hasWithdrawalsRoot }: Pick<TrustedHeader, 'hasWithdrawalsRoot'>): boolean =>
  knownTypes.has(receipt['type'] ?? '0x0') || (receipt['type'] === '0x7e' && hasVersion(receipt) === hasWithdrawalsRoot)

/** The root of these receipts of a block, as in its header. Throws MalformedMember. */
export const receiptsRootOf = (receipts: readonly JsonObject[]): string => toHex(trieRootOf(receipts.map(encodeReceipt)))

/** Until 2017 receipts had the state root in place of the status. */
const encodeReceipt = (receipt: JsonObject): Buffer => {
  const { status, root, cumulativeGasUsed, logsBloom, logs } = receipt
  const encoding = encodeRlp([
    status === undefined || status === null ? toBytes(root) : toQuantityBytes(status),
    toQuantityBytes(cumulativeGasUsed),
    toBytes(logsBloom),
    toList(logs).map(encodeLog),
    ...(receipt['type'] === '0x7e' && hasVersion(receipt)
      ? [toQuantityBytes(receipt['depositNonce']), toQuantityBytes(receipt['depositReceiptVersion'])]
      : []),
  ])
  const type = toQuantityBytes(receipt['type'] ?? '0x0')
  return Buffer.concat([type, encoding])
}

const encodeLog = (log: Json) => {
  const { address, topics, data } = toObject(log)
  return [toBytes(address), toList(topics).map(toBytes), toBytes(data)]
}
