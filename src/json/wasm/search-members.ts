// AssemblyScript, compiled to dist/src/json/json-bytes.wasm together with scan-values.ts. ../wasm-member-search.ts calls it.
//
// Searches a text for the names of members in turn, and looks at the value behind each. It stops before each name whose value it does not
// accept: the search in JavaScript reads that value, and decides.

// Of a member, as in ../wasm-member-search.ts.
const memberBytes: usize = 48
const nameLengthOffset: usize = 0
const textCountOffset: usize = 4
const textLengthOffset: usize = 8
const textsOffset: usize = 12
const nameOffset: usize = 16
const fromOffset: usize = 32
const toOffset: usize = 40

/** Greater numbers than those of so many hex digits are not exact in JavaScript. */
const maxHexDigits: u32 = 13

/** Where in the text the search goes on. */
export let position: i32 = 0
/** The member whose name is searched for. */
export let memberIndex: u32 = 0
/** The search ended before a value that it does not accept; else at the limit. */
export let needsJudgment: bool = false

export function setSearch(newPosition: i32, newMemberIndex: u32): void {
  position = newPosition
  memberIndex = newMemberIndex
}

function isName(at: usize, name: v128, mask: i32): bool {
  return (i8x16.bitmask(i8x16.eq(v128.load(at), name)) & mask) === mask
}

/** The first name from `from` on, before `limit`; `limit` where there is none. */
function findName(from: usize, limit: usize, member: usize): usize {
  const name = v128.load(member, nameOffset)
  const mask = (1 << load<u32>(member, nameLengthOffset)) - 1
  const secondByte = i8x16.splat(load<i8>(member, nameOffset + 1))
  for (let at = from; at < limit; at += 16) {
    const quotes = i8x16.eq(v128.load(at), i8x16.splat(0x22))
    let candidates = i8x16.bitmask(v128.and(quotes, i8x16.eq(v128.load(at + 1), secondByte)))
    for (; candidates !== 0; candidates &= candidates - 1) {
      const found = at + <usize>ctz(candidates)
      if (found >= limit) return limit
      if (isName(found, name, mask)) return found
    }
  }
  return limit
}

function skipSpace(from: usize, end: usize): usize {
  let at = from
  for (; at < end; at++) {
    const byte = load<u8>(at)
    if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) break
  }
  return at
}

/** Equal but for the bit that makes letters small, which the text has. */
function isText(at: usize, text: usize, length: usize): bool {
  const smallLetters = i8x16.splat(0x20)
  const last = length - 16
  let i: usize = 0
  while (i8x16.all_true(i8x16.eq(v128.or(v128.load(at + i), smallLetters), v128.load(text + i)))) {
    if (i === last) return true
    i = min(i + 16, last)
  }
  return false
}

function isOneOf(at: usize, member: usize, end: usize): bool {
  const length = <usize>load<u32>(member, textLengthOffset)
  if (at + length > end) return false
  const first = <usize>load<u32>(member, textsOffset)
  const behind = first + length * <usize>load<u32>(member, textCountOffset)
  for (let text = first; text < behind; text += length) if (isText(at, text, length)) return true
  return false
}

function hexDigit(byte: u32): u32 {
  if (byte - 0x30 < 10) return byte - 0x30
  const letter = (byte | 0x20) - 0x61
  return letter < 6 ? letter + 10 : 16
}

function isWithin(at: usize, member: usize, end: usize): bool {
  // A quote, 0x, the digits, and a quote.
  if (at + maxHexDigits + 4 > end || load<u8>(at) !== 0x22 || load<u8>(at, 1) !== 0x30 || (load<u8>(at, 2) | 0x20) !== 0x78) return false
  let number: u64 = 0
  let digitCount: u32 = 0
  let digit = hexDigit(load<u8>(at, 3))
  while (digit < 16 && digitCount < maxHexDigits) {
    number = (number << 4) | digit
    digit = hexDigit(load<u8>(at + ++digitCount, 3))
  }
  if (digitCount === 0 || load<u8>(at + digitCount, 3) !== 0x22) return false
  return <f64>number >= load<f64>(member, fromOffset) && <f64>number <= load<f64>(member, toOffset)
}

/**
 * Searches for names that begin before `limit`, and 32 bytes before the end. Returns how many were found whose values are accepted.
 */
export function searchMembers(text: u32, byteLength: u32, limit: i32, members: u32, memberCount: u32): u32 {
  const begin = <usize>text
  const end = begin + byteLength
  let foundCount: u32 = 0
  needsJudgment = false
  for (;;) {
    const member = <usize>members + memberBytes * <usize>memberIndex
    const nameLength = load<u32>(member, nameLengthOffset)
    const found = <i32>(findName(begin + position, begin + limit, member) - begin)
    if (found >= limit) break
    const colon = skipSpace(begin + found + nameLength, end)
    const value = skipSpace(colon + 1, end)
    const isMember = value < end && load<u8>(colon) === 0x3a
    needsJudgment = !(isMember && (load<u32>(member, textCountOffset) > 0 ? isOneOf(value, member, end) : isWithin(value, member, end)))
    if (needsJudgment) break
    position = <i32>(value - begin)
    memberIndex = memberIndex + 1 === memberCount ? 0 : memberIndex + 1
    foundCount++
  }
  return foundCount
}
