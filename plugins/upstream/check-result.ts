import { MemberSearch, memberIsOneOf, memberIsWithin, namedBlocksOf, parseJsonHexQuantity } from '../../src/plugin/internal.ts'
import type { ExpectedMember, ResultKind, Results } from '../../src/plugin/internal.ts'
import { blockSelectorOf, copyReply, refuseWrongResult, toBuffer } from '../../src/plugin/plugin.ts'
import type { BlockSelector, Method, Reply, Request, Result } from '../../src/plugin/plugin.ts'
import { boundsOf } from './block-range.ts'
import { filterOf } from './filter-lists.ts'
import { refuseLongResult } from './too-many-results.ts'

/** What a result is the result of. */
interface Expectation {
  readonly method: Method
  readonly request: Request
  /** For a method whose result is logs. */
  readonly logs: ExpectedLogs | undefined
}

/**
 * The result as the caller gets it, or a failure where it cannot be the result of this request: a storage value that is no
 * hex, or longer than 32 bytes; logs that are no list, or are outside the requested blocks and addresses; a block of another
 * number or hash; the receipt of another transaction; a value of another type than the method has. What only a proof could show is not checked.
 */
export const checkResult = (result: Result, { method, request, logs }: Expectation, results: Results): Reply | Promise<Reply> => {
  const { maxResults } = method
  if (maxResults !== undefined && (result.count ?? 0) > maxResults)
    return refuseLongResult(result, maxResults, blockSelectorOf(method, request.params), results)
  switch (method.result) {
    case undefined:
      return maxResults !== undefined && result.count === undefined ? copyReply(result, { unexpectedType: true }) : result
    case 'word':
      return padStorageWord(result)
    case 'logs':
      return checkLogs(result, logs ?? expectLogs(request, method), results)
    case 'block':
    case 'transaction':
    case 'receipt':
    case 'receipts':
      return checkObject(result, method, request, results)
    default:
      return checkType(result, method.result)
  }
}

/** The node's text is JSON, so its first byte tells the type. Of a text that may be long, the hex of the first bytes is checked. */
const checkType = (result: Result, kind: ResultKind): Reply => {
  const { firstBytes, pattern } = resultTypes[kind] ?? {}
  const json = result.result
  const first = String.fromCharCode(json.at(0) ?? 0)
  if (firstBytes?.includes(first) === false) return refuseWrongResult(result, `the result is not of the type ${kind}`)
  if (pattern === undefined || first !== '"') return result
  const isLong = json.byteLength > maxMatchedBytes
  const text = toBuffer(isLong ? json.subarray(0, maxMatchedBytes) : json).toString('latin1')
  return pattern.test(isLong ? `${text}"` : text) ? result : refuseWrongResult(result, `the result is not of the type ${kind}`)
}

/** An eth_call returns a few words mostly. */
const maxMatchedBytes = 256

const quantity = { firstBytes: '"', pattern: /^"0x[0-9a-f]{1,64}"$/i }
const data = { firstBytes: '"', pattern: /^"0x[0-9a-f]*"$/i }

/** What a result of each type begins with; and of texts of hex, the pattern. */
const resultTypes: { readonly [kind in ResultKind]?: { readonly firstBytes: string; readonly pattern?: RegExp } } = {
  quantity,
  quantityOrNull: { ...quantity, firstBytes: '"n' },
  data,
  dataOrNull: { ...data, firstBytes: '"n' },
  hash: { firstBytes: '"', pattern: /^"0x[0-9a-f]{64}"$/i },
  text: { firstBytes: '"' },
  boolean: { firstBytes: 'tf' },
  object: { firstBytes: '{' },
  objectOrNull: { firstBytes: '{n' },
  array: { firstBytes: '[' },
  arrayOrNull: { firstBytes: '[n' },
}

/** Contract 4.2: the value is 32 bytes long; some nodes omit leading zeros. */
const padStorageWord = (result: Result): Reply => {
  const text = toBuffer(result.result).toString('latin1')
  if (!/^"0x[0-9a-fA-F]{0,64}"$/.test(text)) return refuseWrongResult(result, 'the storage value is not up to 32 bytes of hex')
  if (text.length === '"0x"'.length + 64) return result
  return copyReply(result, { result: Buffer.from(`"0x${text.slice(3, -1).padStart(64, '0')}"`, 'latin1') })
}

/** A block, a transaction or a receipt; of the receipts of a block the first. There may be none. */
const checkObject = (result: Result, method: Method, request: Request, results: Results): Reply => {
  const json = result.result
  if (json.at(0) === 'n'.charCodeAt(0)) return result
  const firstByte = method.result === 'receipts' ? '[' : '{'
  if (json.at(0) !== firstByte.charCodeAt(0)) return refuseWrongResult(result, `the result is not of the type ${method.result}`)
  const expected = expectedMemberOf(method, request)
  if (expected === undefined || (method.result === 'receipts' && result.count === 0)) return result
  const [text, blockHash] = results.findMembers(json, method.result === 'receipt' ? [expected.name, 'blockHash'] : [expected.name])
  const isExpected =
    typeof expected.value === 'number'
      ? parseJsonHexQuantity(text) === expected.value
      : text?.toLowerCase() === `"${expected.value.toLowerCase()}"`
  if (!isExpected) return refuseWrongResult(result, `${expected.name} is not the requested one`)
  // Contract 4.4: a pending transaction has no receipt. Some nodes have one without a block.
  return blockHash === 'null' ? copyReply(result, { result: jsonNull }) : result
}

const jsonNull = Buffer.from('null')

/** What the request says about a member of the result; undefined where the block is named by a tag. */
const expectedMemberOf = (method: Method, { params }: Request): { readonly name: string; readonly value: string | number } | undefined => {
  const block = blockSelectorOf(method, params)
  const [numberName, hashName] = method.result === 'block' ? ['number', 'hash'] : ['blockNumber', 'blockHash']
  if (block !== undefined && 'hash' in block) return { name: hashName, value: block.hash }
  if (block !== undefined) return typeof block.from === 'number' ? { name: numberName, value: block.from } : undefined
  const [hash] = params
  return typeof hash === 'string' ? { name: method.result === 'receipt' ? 'transactionHash' : 'hash', value: hash } : undefined
}

/** What each log of a response must have, and a search for it, which may get the response as it comes. */
interface ExpectedLogs {
  readonly members: readonly ExpectedMember[]
  readonly search: MemberSearch
}

export const expectLogs = (request: Request, method: Method): ExpectedLogs => {
  const { address } = filterOf(request)
  const addresses = (Array.isArray(address) ? address : [address]).filter(each => typeof each === 'string')
  const members = [
    ...(addresses.length === 0 ? [] : [memberIsOneOf('address', addresses)]),
    ...expectedBlocks(blockSelectorOf(method, request.params)),
  ]
  return { members, search: new MemberSearch(members) }
}

/** Logs of the pending block have no number. */
const expectedBlocks = (blocks: BlockSelector | undefined): readonly ExpectedMember[] => {
  if (blocks !== undefined && 'hash' in blocks) return [memberIsOneOf('blockHash', [blocks.hash])]
  const named = namedBlocksOf(blocks)
  if (named.includes('pending') || !named.some(block => typeof block === 'number')) return []
  const { from, to } = boundsOf(blocks)
  return [memberIsWithin('blockNumber', from, to)]
}

export const checkLogs = async (result: Result, { members, search }: ExpectedLogs, results: Results): Promise<Reply> => {
  if (result.count === undefined) return refuseWrongResult(result, 'logs are no list')
  if (!(await results.everyObjectHas(result.result, result.count, members, search)))
    return refuseWrongResult(result, 'logs are outside the requested blocks or addresses')
  return result.source === 'partner' ? checkOrder(result, results) : result
}

/**
 * Of a partner, which no head or finality is known of: that the logs are of one branch, each once and in order. It takes 40 ms for 10,000 logs,
 * and own nodes are spared it. Logs of the pending block have no position.
 */
const checkOrder = async (result: Result, results: Results): Promise<Reply> => {
  const logs = (await results.extractObjectsAsync(result.result, ['blockNumber', 'blockHash', 'logIndex', 'removed'])) ?? []
  let last: { readonly number: number; readonly hash: string | undefined; readonly index: number } | undefined
  for (const { members } of logs) {
    const [numberText, hash, indexText, removed] = members
    if (removed === 'true') return refuseWrongResult(result, 'a log is removed')
    const [number, index] = [parseJsonHexQuantity(numberText), parseJsonHexQuantity(indexText)]
    if (number === undefined || index === undefined) continue
    const isNext = last === undefined || number > last.number || (number === last.number && hash === last.hash && index > last.index)
    if (!isNext) return refuseWrongResult(result, 'logs are duplicate, out of order, or of several branches')
    last = { number, hash, index }
  }
  return result
}
