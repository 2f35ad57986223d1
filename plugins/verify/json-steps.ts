import { isJsonObject, toBuffer } from '../../src/plugin/plugin.ts'
import type { Json, Result } from '../../src/plugin/plugin.ts'
import type { Steps } from './work-turns.ts'

/** Longer values are parsed member by member, unless another length is given. */
const defaultMaxBytesAtOnce = 65_536

const ascii = {
  quote: 0x22,
  comma: 0x2c,
  openArray: 0x5b,
  backslash: 0x5c,
  closeArray: 0x5d,
  openObject: 0x7b,
  closeObject: 0x7d,
  space: 0x20,
}

/** The value of a JSON text, which is valid. */
export function* parseSteps(json: Result['result'], maxBytesAtOnce = defaultMaxBytesAtOnce): Steps<Json> {
  const bytes = toBuffer(json)
  return yield* valueSteps({ bytes, maxBytesAtOnce }, 0, bytes.length)
}

interface ParsedText {
  readonly bytes: Buffer
  readonly maxBytesAtOnce: number
}

function* valueSteps(text: ParsedText, from: number, to: number): Steps<Json> {
  const { bytes, maxBytesAtOnce } = text
  const start = skipSpace(bytes, from)
  const isList = bytes[start] === ascii.openArray
  if (to - start <= maxBytesAtOnce || (!isList && bytes[start] !== ascii.openObject)) {
    yield to - start
    return JSON.parse(bytes.toString('utf8', start, to)) as Json // the text is JSON
  }
  if (isList) {
    const list: Json[] = []
    for (const [childStart, childEnd] of childrenOf(bytes, start)) list.push(yield* valueSteps(text, childStart, childEnd))
    return list
  }
  const members: [string, Json][] = []
  for (const [childStart, childEnd] of childrenOf(bytes, start)) {
    const nameStart = skipSpace(bytes, childStart)
    const nameEnd = endOfString(bytes, nameStart) + 1
    const name = String(JSON.parse(bytes.toString('utf8', nameStart, nameEnd)))
    members.push([name, yield* valueSteps(text, skipSpace(bytes, nameEnd) + 1, childEnd)])
  }
  return Object.fromEntries(members)
}

/** From where to where each element of the list, or each member of the object, goes that begins there. */
function* childrenOf(bytes: Buffer, container: number): Generator<readonly [start: number, end: number]> {
  let [depth, start] = [0, container + 1]
  for (let at = container; at < bytes.length; at++) {
    const byte = bytes[at]
    if (byte === ascii.quote) at = endOfString(bytes, at)
    else if (byte === ascii.openArray || byte === ascii.openObject) depth += 1
    else if (byte === ascii.closeArray || byte === ascii.closeObject) depth -= 1
    if (depth > 1 || (depth === 1 && byte !== ascii.comma)) continue
    if (skipSpace(bytes, start) < at) yield [start, at]
    if (depth === 0) return
    start = at + 1
  }
}

const skipSpace = (bytes: Buffer, from: number): number => {
  let at = from
  while (bytes[at]! <= ascii.space) at++
  return at
}

/** Where the ascii.quote is that ends the string that begins there. */
const endOfString = (bytes: Buffer, start: number): number => {
  for (let end = start; ; ) {
    end = bytes.indexOf(ascii.quote, end + 1)
    if (end < 0) throw new SyntaxError('a string without an end')
    let backslashes = 0
    while (bytes[end - 1 - backslashes] === ascii.backslash) backslashes += 1
    if (backslashes % 2 === 0) return end
  }
}

/** Longer lists, and what has one in it, are written element by element. */
const maxElementsAtOnce = 32

const isLong = (value: Json): boolean => Array.isArray(value) && value.length > maxElementsAtOnce

export function* stringifySteps(value: Json): Steps<Buffer> {
  const texts: string[] = []
  yield* textSteps(value, texts)
  return Buffer.from(texts.join(''))
}

function* textSteps(value: Json, texts: string[]): Steps<void> {
  if (isLong(value)) {
    let separator = '['
    for (const element of value as readonly Json[]) {
      texts.push(separator)
      yield* textSteps(element, texts)
      separator = ','
    }
    texts.push(']')
  } else if (isJsonObject(value) && Object.values(value).some(isLong)) {
    let separator = '{'
    for (const [name, member] of Object.entries(value)) {
      texts.push(`${separator}${JSON.stringify(name)}:`)
      yield* textSteps(member, texts)
      separator = ','
    }
    texts.push('}')
  } else {
    const text = JSON.stringify(value)
    texts.push(text)
    yield text.length
  }
}
