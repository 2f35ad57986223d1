import { isJsonObject, keccak256, parseHexQuantity } from '../../src/plugin/plugin.ts'
import type { Json, JsonObject } from '../../src/plugin/plugin.ts'
import { emptyListHash, hasFieldsInOrder, headerHashOf, headerShapeOf } from './block-header.ts'
import type { Finding } from './chain-rules.ts'
import { MalformedMember, isAbsent, isSameHex, toBigInt, toBytes, toHex, toList, toObject, toQuantityBytes } from './hex.ts'
import { hasTopics, topicsOf } from './log-query.ts'
import { logsBloomOf } from './logs-bloom.ts'
import { encodeRlp } from './rlp.ts'
import { encodeTransaction, isEncodable, transactionShapeOf } from './transaction-encoding.ts'
import { trieRootOf } from './trie-root.ts'

/** What the checks find in the result of a method with these parameters, by the kind of result. */
export const resultChecks = {
  block: (value: Json): readonly Finding[] => checkBlock(toObject(value)),
  transaction: (value: Json, params: readonly Json[]): readonly Finding[] => [
    ...checkPosition(toObject(value), params),
    ...checkTransaction(toObject(value)),
  ],
  receipt: (value: Json): readonly Finding[] => checkReceipt(toObject(value)),
  receipts: (value: Json): readonly Finding[] => checkReceipts(toList(value).map(toObject)),
  logs: (value: Json, [filter]: readonly Json[]): readonly Finding[] =>
    checkLogs(toList(value).map(toObject), isJsonObject(filter) ? filter : {}),
} as const

/** Whether the computed value is as it should be; not where it cannot be computed. */
export const holds = (check: () => boolean): boolean => {
  try {
    return check()
  } catch (error) {
    if (error instanceof MalformedMember) return false
    throw error
  }
}

const checkBlock = (block: JsonObject): readonly Finding[] => {
  const number = parseHexQuantity(block['number'])
  return [
    ...[headerFinding(block), orderFinding(block), unclesFinding(block, number), ...checkHashesOf(block, number)],
    ...checkTransactionsOf(block, number),
    ...checkWithdrawalsOf(block, number),
  ]
}

/** The header has the hash of the headers of up to two uncles, so that it tells whether there are any. */
const unclesFinding = ({ uncles, sha3Uncles }: JsonObject, block: number | undefined): Finding => ({
  rule: 'a block has uncles where its header has',
  holds: !Array.isArray(uncles) || isSameHex(sha3Uncles, emptyListHash) === (uncles.length === 0),
  block,
  knownFor: 'Ethereum',
  isEvidence: false,
})

/** Of a block with the hashes of its transactions. */
const checkHashesOf = ({ transactions }: JsonObject, block: number | undefined): readonly Finding[] => {
  if (!Array.isArray(transactions) || !transactions.every(each => typeof each === 'string')) return []
  const isOnce = new Set(transactions).size === transactions.length
  const isEvidence = transactions.length > 1
  return [{ rule: 'a block has each transaction once', holds: isOnce, block, knownFor: 'Ethereum', isEvidence }]
}

/** `isRight`: whether the hash is that of the header, if that is known. */
export const headerFinding = (block: JsonObject, isRight = holds(() => isSameHex(headerHashOf(block), block['hash']))): Finding => {
  const { shape, isOfEthereum } = headerShapeOf(block)
  return {
    rule: `the hash of a block is that of its header (${shape})`,
    holds: isRight,
    block: parseHexQuantity(block['number']),
    knownFor: isOfEthereum ? 'Ethereum' : 'no chain',
    isEvidence: true,
  }
}

/** Networks may have left a fork out, at any block. */
export const orderFinding = (block: JsonObject): Finding => ({
  rule: 'a block has the fields of each fork up to its own',
  holds: !headerShapeOf(block).isOfEthereum || hasFieldsInOrder(block),
  block: parseHexQuantity(block['number']),
  knownFor: 'Ethereum',
  isEvidence: false,
})

/** Of a block with whole transactions: that they are those that its header is of. */
const checkTransactionsOf = (block: JsonObject, number: number | undefined): readonly Finding[] => {
  const { transactions } = block
  if (!Array.isArray(transactions) || !transactions.every(each => typeof each === 'object')) return []
  const list = transactions.map(toObject)
  const findings = list.flatMap(checkTransaction)
  const isEvidence = list.length > 1
  const positions: Finding = {
    rule: 'the transactions of a block are of that block, in their order',
    holds: list.every((each, i) => isIn(each, block['hash'], block['number']) && parseHexQuantity(each['transactionIndex']) === i),
    block: number,
    knownFor: 'Ethereum',
    isEvidence,
  }
  if (findings.length < list.length) return [...findings, positions]
  const root: Finding = {
    rule: 'the root of a block is that of its transactions',
    holds: holds(() => isSameHex(toHex(trieRootOf(list.map(encodeTransaction))), block['transactionsRoot'])),
    block: number,
    knownFor: 'Ethereum',
    isEvidence,
  }
  return [...findings, positions, root]
}

/** Networks without withdrawals have an empty list of them, and may use the root for something else. */
const checkWithdrawalsOf = ({ withdrawals, withdrawalsRoot }: JsonObject, number: number | undefined): readonly Finding[] =>
  withdrawals === undefined || withdrawals === null
    ? []
    : [
        {
          rule: 'the root of a block is that of its withdrawals',
          holds: holds(() => isSameHex(withdrawalsRootOf(withdrawals), withdrawalsRoot)),
          block: number,
          knownFor: 'Ethereum',
          isEvidence: Array.isArray(withdrawals) && withdrawals.length > 0,
        },
      ]

/** Throws MalformedMember. */
export const withdrawalsRootOf = (withdrawals: Json | undefined): string => toHex(trieRootOf(toList(withdrawals).map(encodeWithdrawal)))

const encodeWithdrawal = (value: Json): Buffer => {
  const { index, validatorIndex, address, amount } = toObject(value)
  return encodeRlp([toQuantityBytes(index), toQuantityBytes(validatorIndex), toBytes(address), toQuantityBytes(amount)])
}

/** Of a transaction that was asked for by its position in a block. */
const checkPosition = ({ transactionIndex }: JsonObject, [, position]: readonly Json[]): readonly Finding[] =>
  position === undefined
    ? []
    : [
        {
          rule: 'a transaction has the position that was asked for',
          holds: parseHexQuantity(transactionIndex) === parseHexQuantity(position),
          block: undefined,
          knownFor: 'every chain',
          isEvidence: false,
        },
      ]

/** Nothing of a transaction that cannot be hashed. */
const checkTransaction = (transaction: JsonObject): readonly Finding[] => {
  const shape = transactionShapeOf(transaction)
  if (shape === undefined) return []
  const { type, isOfEthereum } = shape
  const isOfHash = holds(() => isSameHex(toHex(keccak256(encodeTransaction(transaction))), transaction['hash']))
  // A short signature is one all the same where the hash is right: of contracts that every chain has at one address, for example.
  const isHashed = isOfHash || isEncodable(transaction)
  return [
    {
      rule: `the hash of a transaction is that of its encoding (type ${type}${isHashed ? '' : ', without a signature'})`,
      holds: isOfHash,
      block: parseHexQuantity(transaction['blockNumber']),
      knownFor: isOfEthereum ? 'Ethereum' : 'no chain',
      isEvidence: true,
    },
  ]
}

const isIn = (member: JsonObject, hash: Json | undefined, number: Json | undefined): boolean =>
  isSameHex(member['blockHash'], hash) && parseHexQuantity(member['blockNumber']) === parseHexQuantity(number)

const checkReceipt = (receipt: JsonObject): readonly Finding[] => {
  const { logs, logsBloom, transactionHash, transactionIndex, blockHash, blockNumber } = receipt
  const block = parseHexQuantity(blockNumber)
  if (!Array.isArray(logs) || block === undefined) return []
  const isEvidence = logs.length > 0
  const isOfReceipt = (log: JsonObject): boolean =>
    isIn(log, blockHash, blockNumber) &&
    isSameHex(log['transactionHash'], transactionHash) &&
    parseHexQuantity(log['transactionIndex']) === parseHexQuantity(transactionIndex)
  return [
    {
      rule: 'the logs of a receipt are of its transaction, with indexes in sequence',
      holds: holds(() => logs.every(log => isOfReceipt(toObject(log))) && isInSequence(logs.map(toObject), undefined)),
      block,
      knownFor: 'Ethereum',
      isEvidence,
    },
    {
      rule: 'the bloom of a receipt is that of its logs',
      // Some providers leave it out.
      holds: isAbsent(logsBloom) || holds(() => isSameHex(logsBloomOf(logs), logsBloom)),
      block,
      knownFor: 'Ethereum',
      isEvidence: isEvidence && !isAbsent(logsBloom),
    },
  ]
}

/** `first`: the index of the first log; any where it is undefined. */
const isInSequence = (logs: readonly JsonObject[], first: number | undefined): boolean => {
  const start = first ?? parseHexQuantity(logs[0]?.['logIndex']) ?? 0
  return logs.every(({ logIndex }, i) => parseHexQuantity(logIndex) === start + i)
}

/** All receipts of one block. */
const checkReceipts = (receipts: readonly JsonObject[]): readonly Finding[] => {
  const [first] = receipts
  if (first === undefined) return []
  const { blockHash, blockNumber } = first
  const logsOf = ({ logs }: JsonObject) => (Array.isArray(logs) ? logs.map(toObject) : [])
  const withLogs = receipts.filter(receipt => logsOf(receipt).length > 0)
  const block = parseHexQuantity(blockNumber)
  const common = { block, knownFor: 'Ethereum' } as const
  return [
    ...receipts.flatMap(checkReceipt),
    {
      ...common,
      rule: 'the receipts of a block are of that block, in their order',
      holds: receipts.every((each, i) => isIn(each, blockHash, blockNumber) && parseHexQuantity(each['transactionIndex']) === i),
      isEvidence: receipts.length > 1,
    },
    {
      ...common,
      rule: 'the logs of a block have indexes in sequence',
      holds: holds(() => isInSequence(receipts.flatMap(logsOf), 0)),
      isEvidence: withLogs.length > 1,
    },
    {
      ...common,
      rule: 'the gas of the receipts of a block adds up',
      holds: holds(() => receipts.every((each, i) => hasGasAfter(receipts[i - 1], each))),
      isEvidence: receipts.length > 1,
    },
  ]
}

/** Some providers leave members out. Throws MalformedMember. */
const hasGasAfter = (before: JsonObject | undefined, { gasUsed, cumulativeGasUsed }: JsonObject): boolean => {
  const gasBefore = before === undefined ? '0x0' : before['cumulativeGasUsed']
  return [gasBefore, gasUsed, cumulativeGasUsed].some(isAbsent) || toBigInt(cumulativeGasUsed) === toBigInt(gasBefore) + toBigInt(gasUsed)
}

const checkLogs = (logs: readonly JsonObject[], filter: JsonObject): readonly Finding[] => {
  const topics = topicsOf(filter)
  const matches: Finding = {
    rule: 'logs have the topics that were asked for',
    holds: logs.every(log => hasTopics(log, topics)),
    block: undefined,
    knownFor: 'every chain',
    isEvidence: false,
  }
  const lasting: Finding = {
    rule: 'logs that are asked for are not removed',
    holds: logs.every(({ removed }) => removed !== true),
    block: undefined,
    knownFor: 'Ethereum',
    isEvidence: false,
  }
  const blocks = groupByBlock(logs)
  if (blocks === undefined) return [matches, lasting] // pending logs have no block
  const block = blocks[0]?.number
  const isEvidence = blocks.some(({ logs: [first, ...others] }) =>
    others.some(({ transactionHash }) => !isSameHex(transactionHash, first?.['transactionHash'])),
  )
  const order: Finding = {
    rule: 'logs are of one branch, each once and in order',
    holds: blocks.every((each, i) => each.number > (blocks[i - 1]?.number ?? -1) && each.isOneHash && isRising(each.logs)),
    block,
    knownFor: 'Ethereum',
    isEvidence,
  }
  const isUnfiltered = topics.every(each => each === undefined) && [undefined, null].includes(filter['address'] as undefined | null)
  if (!isUnfiltered) return [matches, lasting, order]
  const whole: Finding = {
    rule: 'the logs of whole blocks have indexes in sequence',
    holds: blocks.every(each => isInSequence(each.logs, 0)),
    block,
    knownFor: 'Ethereum',
    isEvidence,
  }
  return [matches, lasting, order, whole]
}

interface LogsOfBlock {
  readonly number: number
  isOneHash: boolean
  readonly logs: JsonObject[]
}

/** Logs with the same number that follow each other; undefined where one has no number. */
const groupByBlock = (logs: readonly JsonObject[]): readonly LogsOfBlock[] | undefined => {
  const blocks: LogsOfBlock[] = []
  for (const log of logs) {
    const number = parseHexQuantity(log['blockNumber'])
    if (number === undefined) return undefined
    const last = blocks.at(-1)
    if (last?.number === number) {
      last.isOneHash &&= isSameHex(log['blockHash'], last.logs[0]?.['blockHash'])
      last.logs.push(log)
    } else {
      blocks.push({ number, isOneHash: true, logs: [log] })
    }
  }
  return blocks
}

const isRising = (logs: readonly JsonObject[]): boolean =>
  logs.every(({ logIndex }, i) => i === 0 || (parseHexQuantity(logIndex) ?? -1) > (parseHexQuantity(logs[i - 1]?.['logIndex']) ?? Infinity))
