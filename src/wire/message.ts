import type { Json } from '../call.ts'
import { refuse } from '../reply.ts'
import type { Failure } from '../reply.ts'
import { Familiar } from './familiar.ts'
import type { Shape } from './familiar.ts'
import { maxParsed } from './limits.ts'
import type { Fault } from './limits.ts'
import { maxMembers } from './outline.ts'
import type { Item, Member } from './outline.ts'
import { Scanner } from './scan.ts'
import { latin1, onItsOwn, readName } from './text.ts'

export interface MessageLimits {
  /** How deep arrays and objects may nest, a batch's own array included. */
  readonly depth: number
  /** Most calls in a batch. */
  readonly batch: number
}

/** One request as it came. */
export interface Received {
  /** Parsed; nothing about it has been checked. */
  readonly message: Json
  /**
   * What to write as the id of the answer: the bytes of the request's id (one character per byte), or `null` where they
   * are not a number, a string or null. Undefined when the request has no id.
   */
  readonly id: string | undefined
  /** Its answer, when it must not run at all. */
  readonly refusal: Failure | undefined
}

/** A request, a batch of them, or the one answer to a message that holds none. */
export type Incoming = Received | readonly Received[] | Failure

export type ReadMessage = (bytes: Uint8Array) => Incoming

/** Reads what callers send. It is scanned before anything is parsed: no nesting and no number of values can hurt. */
export const openReader = (limits: MessageLimits): ReadMessage => {
  const familiar = new Familiar()
  return bytes => {
    const raw = latin1(bytes)
    const known = familiar.recall(raw)
    if (known !== undefined) return known
    const scanner = new Scanner({ depth: limits.depth, elements: limits.batch, values: maxParsed })
    scanner.push(bytes)
    const fault = scanner.end()
    if (fault !== undefined) return refuseMessage(fault, limits)
    const { isArray, items, isWide } = scanner
    if (!isArray) return receive({ raw, isWide, familiar }, items[0]!)
    if (items.length === 0) return invalid('the batch is empty')
    return items.map(item => familiar.recall(raw.slice(item.start, item.end)) ?? receive({ raw, isWide, familiar }, item))
  }
}

const refuseMessage = (fault: Fault, { depth, batch }: MessageLimits): Failure => {
  switch (fault) {
    case 'syntax':
      return refuse('parse')
    case 'depth':
      return invalid(`nested deeper than ${depth} levels`)
    case 'elements':
      return invalid(`more than ${batch} calls in a batch`)
    case 'members':
      return invalid(`more than ${maxMembers} members in a request`)
    case 'values':
      return invalid(`more than ${maxParsed} values`)
  }
}

const invalid = (what: string): Failure => refuse('invalid', { message: `invalid request: ${what}` })

/** Must not stand twice: parsing would keep the last of two, and another reader of the same bytes perhaps the first. */
const envelope = ['jsonrpc', 'id', 'method', 'params']

/** A whole message, one character per byte. */
interface Text {
  readonly raw: string
  readonly isWide: boolean
  readonly familiar: Familiar
}

const receive = ({ raw, isWide, familiar }: Text, { start, end, members = [] }: Item): Received => {
  const text = raw.slice(start, end)
  const message = JSON.parse(isWide ? decode(text) : text) as Json
  let id: string | undefined
  let idAt: Member | undefined
  let refusal: Failure | undefined
  /** A bit for each name of the envelope. */
  let seen = 0
  for (const member of members) {
    const place = placeOf(raw, member)
    if (place < 0) continue
    const isTwice = (seen & (1 << place)) !== 0
    if (isTwice) refusal ??= invalid(`${envelope[place]} stands twice`)
    seen |= 1 << place
    if (envelope[place] !== 'id') continue
    id = isTwice ? 'null' : readId(onItsOwn(raw.slice(member.start, member.end)))
    idAt = member
  }
  if (idAt !== undefined && refusal === undefined && !isWide) familiar.learn(text, idAt.start - start, idAt.end - start, message as Shape)
  return { message, id, refusal }
}

/** Which name of the envelope the member has; -1 for any other. Nothing is cut out of the message for a plain name. */
const placeOf = (raw: string, { nameStart, nameEnd }: Member): number => {
  const plain = envelope.findIndex(name => name.length === nameEnd - nameStart && raw.startsWith(name, nameStart))
  if (plain >= 0 || !raw.slice(nameStart, nameEnd).includes('\\')) return plain
  return envelope.indexOf(readName(raw.slice(nameStart, nameEnd)))
}

const decode = (raw: string): string => Buffer.from(raw, 'latin1').toString('utf8')

/** Only numbers, strings and null are ids (JSON-RPC 2.0); their text begins with -, a digit, a quote or n. */
const readId = (token: string): string => (/^[-0-9"n]/.test(token) ? token : 'null')
