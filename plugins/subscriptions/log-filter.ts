import { isJsonObject, parseHexQuantity, refuse } from '../../src/plugin/plugin.ts'
import type { Failure, Json, JsonObject } from '../../src/plugin/plugin.ts'

/** What one position of a log must be: one of these values. Position 0 is the address, 1 to 4 are the topics. */
interface Criterion {
  readonly position: number
  readonly values: ReadonlySet<string>
}

/** Which logs a subscription or a filter gets. */
export interface LogFilter {
  /** Equal filters have the same text. */
  readonly key: string
  readonly criteria: readonly Criterion[]
  /** A log with fewer topics does not match, even where the filter accepts any. */
  readonly minTopics: number
  /** How many addresses and topics it has. */
  readonly valueCount: number
  readonly fromBlock: number
  readonly toBlock: number
}

/** The filter object of a call, which the rules of the method table have normalized. */
export const parseLogFilter = (value: Json | undefined, method: string): LogFilter | Failure => {
  const filter: JsonObject = isJsonObject(value) ? value : {}
  if ((filter['blockHash'] ?? null) !== null)
    return refuse('params', { message: `${method} takes no "blockHash": its logs are in a block that exists` })
  if ((filter['transactionHashes'] ?? null) !== null)
    return refuse('params', { message: `${method} logs takes no "transactionHashes", which is for transactionReceipts` })
  const [fromBlock, toBlock] = [boundOf(filter['fromBlock'], 0), boundOf(filter['toBlock'], Infinity)]
  if (fromBlock === undefined || toBlock === undefined) {
    const name = fromBlock === undefined ? 'fromBlock' : 'toBlock'
    return refuse('params', { message: `${method} takes a number, earliest or latest as "${name}": it is about new blocks` })
  }
  const topics = listOf(filter['topics'] ?? [])
  const positions = [listOf(filter['address'] ?? []), ...topics.map(topic => (topic === null ? [] : listOf(topic)))]
  const criteria = positions.flatMap((values, position) => {
    const isAny = values.length === 0 || values.includes(null)
    return isAny ? [] : [{ position, values: new Set(values.map(String)) }]
  })
  const valueCount = criteria.reduce((sum, { values }) => sum + values.size, 0)
  return { key: JSON.stringify(filter), criteria, minTopics: topics.length, valueCount, fromBlock, toBlock }
}

const listOf = (value: Json): readonly Json[] => (Array.isArray(value) ? value : [value])

/** Undefined for a tag that says nothing about new blocks. */
const boundOf = (block: Json | undefined, latest: number): number | undefined => {
  if ((block ?? 'latest') === 'latest') return latest
  return block === 'earliest' ? 0 : parseHexQuantity(block)
}
