import { isJsonObject } from '../../src/plugin/plugin.ts'
import type { Json, JsonObject, Method } from '../../src/plugin/plugin.ts'
import { headerMembers } from './block-header.ts'
import { transactionMembers } from './transaction-encoding.ts'

/** What a node says of something, for comparison with what others say. */
export interface ComparableAnswer {
  /** The same text for answers that mean the same. */
  readonly common: string
  /** By their place: members that clients and networks add, or leave out, each as canonical JSON. */
  readonly added: ReadonlyMap<string, string>
}

/** The results whose members the specification of Ethereum has; of all others each member counts. */
const specifiedKinds: ReadonlySet<Method['result']> = new Set<Method['result']>(['block', 'transaction', 'receipt', 'receipts', 'logs'])

const receiptMembers = [
  ...['transactionHash', 'contractAddress', 'cumulativeGasUsed', 'gasUsed', 'effectiveGasPrice', 'logs', 'status', 'root'],
  ...['blobGasUsed', 'blobGasPrice', 'address', 'topics', 'logIndex', 'storageKeys', 'index', 'validatorIndex', 'amount'],
]

/** Those that some clients leave out, or write a second time under another name. */
const optionalMembers: ReadonlySet<string> = new Set([
  ...['blockTimestamp', 'totalDifficulty', 'size', 'yParity', 'logsBloom', 'removed', 'blockAccessListHash', 'balHash'],
])

const countedMembers: ReadonlySet<string> = new Set(
  [...headerMembers, ...transactionMembers, ...receiptMembers].filter(name => !optionalMembers.has(name)),
)

/** What each client writes counts; of what is added, what two answers both have. */
export const comparableOf = (value: Json, kind: Method['result']): ComparableAnswer => {
  const added = new Map<string, string>()
  const onAdded = specifiedKinds.has(kind) ? (place: string, member: Json) => void added.set(place, canonicalJson(member)) : undefined
  return { common: JSON.stringify(toCanonical(value, onAdded)), added }
}

export const isSameAnswer = (one: ComparableAnswer, other: ComparableAnswer): boolean =>
  one.common === other.common && Array.from(one.added).every(([place, value]) => (other.added.get(place) ?? value) === value)

/** The value without the members at these places. */
export const withoutPlaces = (value: Json, places: ReadonlySet<string>, place = ''): Json => {
  if (Array.isArray(value)) return toArray(value).map((each, i) => withoutPlaces(each, places, `${place}/${i}`))
  if (!isJsonObject(value)) return value
  const members = Object.entries(value).filter(([name]) => !places.has(`${place}/${name}`))
  return Object.fromEntries(members.map(([name, member]) => [name, withoutPlaces(member, places, `${place}/${name}`)]))
}

/**
 * A text that is the same for values that mean the same: whatever the order of members is, the case of hex, and whether a member is null or absent. Elements
 * of lists have an order.
 */
export const canonicalJson = (value: Json): string => JSON.stringify(toCanonical(value))

type OnAdded = (place: string, member: Json) => void

const toCanonical = (value: Json, onAdded?: OnAdded, place = ''): Json => {
  if (typeof value === 'string') return /^0x[0-9a-f]*$/i.test(value) ? value.toLowerCase() : value
  if (Array.isArray(value)) return toArray(value).map((each, i) => toCanonical(each, onAdded, `${place}/${i}`))
  if (!isJsonObject(value)) return value
  const members = Object.entries(value).filter(([name, member]) => {
    if (member === null || onAdded === undefined || countedMembers.has(name)) return member !== null
    onAdded(`${place}/${name}`, member)
    return false
  })
  return Object.fromEntries(
    members
      .toSorted(([one], [other]) => (one < other ? -1 : 1))
      .map(([name, member]) => [name, toCanonical(member, onAdded, `${place}/${name}`)]),
  ) as JsonObject
}

/** Array.isArray() does not narrow to readonly arrays. */
const toArray = (value: Json): readonly Json[] => value as readonly Json[]
