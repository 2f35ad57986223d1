import { getOrCreate } from '../../src/plugin/internal.ts'
import type { BlockId, FeedBlock } from '../../src/plugin/internal.ts'
import { toBuffer } from '../../src/plugin/plugin.ts'
import type { Services } from '../../src/plugin/plugin.ts'
import type { LogFilter } from './log-filter.ts'

/** One log of a block. */
interface IndexedLog {
  /** As the node wrote it, one character per byte (latin1). */
  readonly text: string
  /** The address, then the topics, in lower case. */
  readonly values: readonly string[]
}

/** What V8 takes for a block, for a log beside its text, for each of its values, and for each other value in the index; measured with 50 to 500 logs. */
const blockBytes = 1_000
const logBytes = 300
const valueBytes = 100
const indexedValueBytes = 200

/** The logs of one block, by address and topic: a filter looks only at those that have one of its values. */
export class BlockLogs implements BlockId {
  readonly number: number
  readonly hash: string
  /** What it takes, with the index. */
  readonly bytes: number
  readonly #logs: readonly IndexedLog[]
  /** By position (0 the address, 1 to 4 the topics) and value: the indexes of the logs that have it, in order. */
  readonly #indexes: readonly Map<string, number[]>[] = Array.from({ length: 5 }, () => new Map<string, number[]>())

  constructor({ number, hash, json }: FeedBlock, results: Services['results']) {
    this.number = number
    this.hash = hash
    this.#logs = (results.extractObjects(Buffer.from(json), ['address', 'topics']) ?? []).map(
      ({ rawJson, members: [address, topics] }) => ({
        text: toBuffer(rawJson).toString('latin1'),
        values: (JSON.parse(`[${address ?? '""'},${topics ?? '[]'}]`.toLowerCase()) as (string | string[])[]).flat(), // a node's own logs
      }),
    )
    for (const [i, { values }] of this.#logs.entries())
      for (const [position, value] of values.entries()) getOrCreate(this.#indexOf(position), value, newList).push(i)
    this.bytes =
      blockBytes +
      sumOf(this.#logs, ({ text, values }) => text.length + logBytes + values.length * valueBytes) +
      sumOf(this.#indexes, ({ size }) => size * indexedValueBytes)
  }

  /** The texts of the logs that match, in order. */
  match(filter: LogFilter): readonly string[] {
    if (this.number < filter.fromBlock || this.number > filter.toBlock) return []
    return this.#candidatesOf(filter).flatMap(i => {
      const log = this.#logs[i]
      return log !== undefined && isMatch(log, filter) ? [log.text] : []
    })
  }

  /** The same, as they are sent when the block is removed: the last comes first, each with `removed: true`. */
  matchRemoved(filter: LogFilter): readonly string[] {
    return this.match(filter).map(toRemoved).reverse()
  }

  /** The indexes of the logs that meet the criterion that the fewest logs meet, in order. */
  #candidatesOf({ criteria }: LogFilter): readonly number[] {
    let fewest: readonly (readonly number[])[] | undefined
    let fewestCount = this.#logs.length
    for (const { position, values } of criteria) {
      const lists = this.#listsOf(position, values)
      const count = lists.reduce((sum, { length }) => sum + length, 0)
      if (count === 0) return []
      if (fewest !== undefined && count >= fewestCount) continue
      fewest = lists
      fewestCount = count
    }
    if (fewest === undefined) return [...this.#logs.keys()]
    return fewest.length === 1 ? fewest.flat() : fewest.flat().sort((a, b) => a - b)
  }

  /** Looks up the values in the index, or the index in the values: whatever is shorter. */
  #listsOf(position: number, values: ReadonlySet<string>): readonly (readonly number[])[] {
    const index = this.#indexOf(position)
    if (values.size <= index.size) return Array.from(values, value => index.get(value) ?? []).filter(({ length }) => length > 0)
    return [...index].flatMap(([value, logs]) => (values.has(value) ? [logs] : []))
  }

  #indexOf(position: number): Map<string, number[]> {
    return this.#indexes[position] ?? new Map<string, number[]>()
  }
}

const newList = (): number[] => []

const sumOf = <T>(items: readonly T[], bytesOf: (item: T) => number): number => items.reduce((sum, item) => sum + bytesOf(item), 0)

const isMatch = ({ values }: IndexedLog, { criteria, minTopics }: LogFilter): boolean =>
  values.length > minTopics && criteria.every(criterion => criterion.values.has(values[criterion.position] ?? ''))

/** Some nodes leave out `removed` where it is false. */
const toRemoved = (text: string): string =>
  removedPattern.test(text) ? text.replace(removedPattern, '"removed":true') : text.replace(/\s*\}\s*$/, ',"removed":true}')

const removedPattern = /"removed"\s*:\s*(?:false|true|null)/
