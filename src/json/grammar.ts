/** The state of the scanner before the next byte (RFC 8259). Up to `after` it is between tokens: what is expected there, or a space. */
export const state = {
  value: 0,
  firstElement: 1,
  name: 2,
  firstName: 3,
  colon: 4,
  after: 5,
  string: 6,
  // In a string, behind a backslash; then by how many digits of \u0000 are to come.
  escape: 7,
  hex4: 8,
  hex3: 9,
  hex2: 10,
  hex1: 11,
  // In a string, in a character of several bytes (UTF-8, RFC 3629): by how many are to come, or behind a first byte that
  // allows only some second bytes.
  continuation1: 12,
  continuation2: 13,
  continuation3: 14,
  afterE0: 15,
  afterED: 16,
  afterF0: 17,
  afterF4: 18,
  // In true, false or null, by the letters that have come.
  t: 19,
  tr: 20,
  tru: 21,
  f: 22,
  fa: 23,
  fal: 24,
  fals: 25,
  n: 26,
  nu: 27,
  nul: 28,
  // In a number, by what came last.
  minus: 29,
  zero: 30,
  integer: 31,
  decimalPoint: 32,
  fraction: 33,
  exponentMark: 34,
  exponentSign: 35,
  exponent: 36,
  failed: 37,
} as const

export type State = (typeof state)[keyof typeof state]

/** The bytes that mean something. */
export const ascii = {
  tab: 0x09,
  lineFeed: 0x0a,
  carriageReturn: 0x0d,
  space: 0x20,
  quote: 0x22,
  comma: 0x2c,
  zero: 0x30,
  nine: 0x39,
  openArray: 0x5b,
  backslash: 0x5c,
  closeArray: 0x5d,
  n: 0x6e,
  colon: 0x3a,
  openObject: 0x7b,
  closeObject: 0x7d,
} as const

/** Single bytes as a text, or all from the first to the last one. */
type Bytes = string | readonly [first: number, last: number]

const digits = '0123456789'
const hexDigits = `${digits}abcdefABCDEF`
const continuationBytes = [0x80, 0xbf] as const

/** Which byte leads where; any other is an error. A literal ends in `after`; a number ends before the byte behind it. */
const transitions: readonly (readonly [from: State, bytes: Bytes, to: State])[] = [
  [state.colon, ':', state.value],
  [state.value, 't', state.t],
  [state.t, 'r', state.tr],
  [state.tr, 'u', state.tru],
  [state.tru, 'e', state.after],
  [state.value, 'f', state.f],
  [state.f, 'a', state.fa],
  [state.fa, 'l', state.fal],
  [state.fal, 's', state.fals],
  [state.fals, 'e', state.after],
  [state.value, 'n', state.n],
  [state.n, 'u', state.nu],
  [state.nu, 'l', state.nul],
  [state.nul, 'l', state.after],
  [state.value, '-', state.minus],
  [state.value, '0', state.zero],
  [state.value, '123456789', state.integer],
  [state.minus, '0', state.zero],
  [state.minus, '123456789', state.integer],
  [state.zero, '.', state.decimalPoint],
  [state.zero, 'eE', state.exponentMark],
  [state.integer, digits, state.integer],
  [state.integer, '.', state.decimalPoint],
  [state.integer, 'eE', state.exponentMark],
  [state.decimalPoint, digits, state.fraction],
  [state.fraction, digits, state.fraction],
  [state.fraction, 'eE', state.exponentMark],
  [state.exponentMark, '+-', state.exponentSign],
  [state.exponentMark, digits, state.exponent],
  [state.exponentSign, digits, state.exponent],
  [state.exponent, digits, state.exponent],
  [state.string, '\\', state.escape],
  [state.escape, '"\\/bfnrt', state.string],
  [state.escape, 'u', state.hex4],
  [state.hex4, hexDigits, state.hex3],
  [state.hex3, hexDigits, state.hex2],
  [state.hex2, hexDigits, state.hex1],
  [state.hex1, hexDigits, state.string],
  // No character is written in more bytes than it needs, is half of a pair of UTF-16, or lies above U+10FFFF.
  [state.string, [0xc2, 0xdf], state.continuation1],
  [state.string, [0xe0, 0xe0], state.afterE0],
  [state.string, [0xe1, 0xec], state.continuation2],
  [state.string, [0xed, 0xed], state.afterED],
  [state.string, [0xee, 0xef], state.continuation2],
  [state.string, [0xf0, 0xf0], state.afterF0],
  [state.string, [0xf1, 0xf3], state.continuation3],
  [state.string, [0xf4, 0xf4], state.afterF4],
  [state.afterE0, [0xa0, 0xbf], state.continuation1],
  [state.afterED, [0x80, 0x9f], state.continuation1],
  [state.afterF0, [0x90, 0xbf], state.continuation2],
  [state.afterF4, [0x80, 0x8f], state.continuation2],
  [state.continuation3, continuationBytes, state.continuation2],
  [state.continuation2, continuationBytes, state.continuation1],
  [state.continuation1, continuationBytes, state.string],
]

/** The state behind each byte, 256 for each state. */
export const nextStates: Uint8Array = new Uint8Array((state.failed + 1) * 256).fill(state.failed)

for (const [from, bytes, to] of transitions) {
  if (typeof bytes === 'string') for (const byte of Buffer.from(bytes)) nextStates[from * 256 + byte] = to
  else nextStates.fill(to, from * 256 + bytes[0], from * 256 + bytes[1] + 1)
}

export const nextState = (current: State, byte: number): State => nextStates[current * 256 + byte] as State // the table holds states

export const canEndNumber = (current: State): boolean =>
  current === state.zero || current === state.integer || current === state.fraction || current === state.exponent

export const isSpace = (byte: number): boolean =>
  byte === ascii.space || byte === ascii.lineFeed || byte === ascii.carriageReturn || byte === ascii.tab

/** 1 for bytes that stand for themselves in a string. */
const plainBytes = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte >= 0x20 && byte < 0x80 && byte !== ascii.quote && byte !== ascii.backslash ? 1 : 0,
)

/** A chunk of at least so many bytes is read through a DataView, which takes 100 ns to create. */
export const minDataViewBytes = 1024

/**
 * The offset of the first byte, at `from` or behind it, that does not stand for itself in a string. Hex digits are most of
 * what callers send. Reading 6 MB takes 0.8 ms where eight bytes at a time are found to be common ones, 1.5 to 2 ms where
 * eight bytes are searched for special ones, and 5 ms byte by byte.
 */
export const skipPlainBytes = (chunk: Uint8Array, view: DataView | undefined, from: number): number => {
  let at = from
  if (view !== undefined) {
    for (const last = chunk.length - 8; at <= last; at += 8) {
      const low = view.getInt32(at, true)
      const high = view.getInt32(at + 4, true)
      if (areCommonBytes(low, high)) continue
      const lowSpecials = specialBytesIn(low) & highBits
      const highSpecials = specialBytesIn(high) & highBits
      if ((lowSpecials | highSpecials) !== 0)
        return lowSpecials !== 0 ? at + lowestByteIndex(lowSpecials) : at + 4 + lowestByteIndex(highSpecials)
    }
  }
  while (at < chunk.length && plainBytes[chunk[at]!] === 1) at++
  return at
}

const highBits = 0x80808080 | 0

const lowestByteIndex = (bits: number): number => (31 - Math.clz32(bits & -bits)) >> 3

/**
 * True when all eight bytes are digits, small letters, or others that have the bit 0x20, one of 0x10 and 0x40, and not
 * 0x80: none of these is special in a string. False may also be said of eight plain bytes.
 */
const areCommonBytes = (one: number, two: number): boolean =>
  ((one | two | (~(one & two) << 2) | ((one & 0x50505050) - 0x10101010) | ((two & 0x50505050) - 0x10101010)) & highBits) === 0

/**
 * The top bit of each of the four bytes is set if the byte is a quote, a backslash, below 0x20 or above 0x7f. It may be set
 * for a byte above a special byte too, never without one.
 */
const specialBytesIn = (word: number): number => {
  const quotes = word ^ 0x22222222
  const backslashes = word ^ 0x5c5c5c5c
  return word | ((quotes - 0x01010101) & ~quotes) | ((backslashes - 0x01010101) & ~backslashes) | (word - 0x20202020)
}
