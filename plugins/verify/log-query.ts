import { keccak256 } from '../../src/plugin/plugin.ts'
import type { Json, JsonObject } from '../../src/plugin/plugin.ts'
import { MalformedMember, toBytes } from './hex.ts'
import { bloomBitsOf, hasBits } from './logs-bloom.ts'
import type { Steps } from './work-turns.ts'

/** The values of one position of a filter, in lower case; undefined for any. */
type Accepted = ReadonlySet<string> | undefined

/** By position, the topics of which one is asked for. A list with null in it accepts any topic. */
export const topicsOf = ({ topics }: JsonObject): readonly Accepted[] => (Array.isArray(topics) ? topics.map(acceptedOf) : [])

const acceptedOf = (value: Json | undefined): Accepted => {
  const list: readonly (Json | undefined)[] = Array.isArray(value) ? value : [value]
  const texts = list.filter(each => typeof each === 'string')
  return texts.length === 0 || texts.length < list.length ? undefined : new Set(texts.map(each => each.toLowerCase()))
}

const accepts = (accepted: Accepted, value: Json | undefined): boolean =>
  accepted === undefined || (typeof value === 'string' && accepted.has(value.toLowerCase()))

export const hasTopics = ({ topics }: JsonObject, expected: readonly Accepted[]): boolean =>
  expected.every((accepted, i) => accepts(accepted, Array.isArray(topics) ? (topics as readonly Json[])[i] : undefined)) // see toList()

/** As geth and subscriptions: a position that accepts any topic needs one. Other nodes may differ, so that it is no rule for their logs. */
const hasEnoughTopics = ({ topics }: JsonObject, { length }: readonly Accepted[]): boolean =>
  length === 0 || (Array.isArray(topics) && topics.length >= length)

/** As which a log counts that is compared. */
const logBytes = 128

/** Which logs a filter selects, and which blooms may have one. */
export class LogQuery {
  readonly #positions: readonly Accepted[]
  readonly #address: Accepted
  /** Of each position with values: the bits of each value. */
  readonly #bits: readonly (readonly (readonly number[])[])[]

  /** Undefined for a filter that is none. */
  static of(filter: JsonObject): LogQuery | undefined {
    try {
      return new LogQuery(filter)
    } catch (error) {
      if (error instanceof MalformedMember) return undefined
      throw error
    }
  }

  private constructor(filter: JsonObject) {
    this.#address = acceptedOf(filter['address'])
    this.#positions = topicsOf(filter)
    this.#bits = [this.#address, ...this.#positions].flatMap(accepted =>
      accepted === undefined ? [] : [Array.from(accepted, value => bloomBitsOf(keccak256(toBytes(value))))],
    )
  }

  /** False where the block has no such log for sure. Throws MalformedMember. */
  mayBeIn(logsBloom: Json): boolean {
    const bloom = toBytes(logsBloom)
    return bloom.some(byte => byte !== 0) && this.#bits.every(values => values.some(bits => hasBits(bloom, bits)))
  }

  /** Adds those of the logs that are asked for. */
  *selectSteps(logs: readonly JsonObject[], to: JsonObject[]): Steps<void> {
    for (const log of logs) {
      if (this.#selects(log)) to.push(log)
      yield logBytes
    }
  }

  #selects(log: JsonObject): boolean {
    return accepts(this.#address, log['address']) && hasEnoughTopics(log, this.#positions) && hasTopics(log, this.#positions)
  }
}
