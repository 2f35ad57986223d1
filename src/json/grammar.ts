/** Where in a JSON text the next byte stands. Up to `after` it is between tokens: what is awaited, or a space. */
export const state = {
  value: 0,
  firstElement: 1,
  name: 2,
  firstName: 3,
  colon: 4,
  after: 5,
  // In a string; `character` is one of several bytes. A word is true, false or null.
  string: 6,
  escape: 7,
  unicodeEscape: 8,
  multibyte: 9,
  literal: 10,
  // In a number, by what came last.
  minus: 11,
  zero: 12,
  integer: 13,
  decimalPoint: 14,
  fraction: 15,
  exponentMark: 16,
  exponentSign: 17,
  exponent: 18,
  failed: 19,
} as const

export type State = (typeof state)[keyof typeof state]

/** The bytes that mean something. */
export const ascii = {
  tab: 0x09,
  lineFeed: 0x0a,
  carriageReturn: 0x0d,
  space: 0x20,
  quote: 0x22,
  plus: 0x2b,
  comma: 0x2c,
  minus: 0x2d,
  point: 0x2e,
  zero: 0x30,
  nine: 0x39,
  colon: 0x3a,
  openArray: 0x5b,
  backslash: 0x5c,
  closeArray: 0x5d,
  openObject: 0x7b,
  closeObject: 0x7d,
  E: 0x45,
  e: 0x65,
  f: 0x66,
  n: 0x6e,
  t: 0x74,
  u: 0x75,
} as const

const byteTable = (test: (byte: number) => boolean): Uint8Array => Uint8Array.from({ length: 256 }, (_, byte) => (test(byte) ? 1 : 0))

/** 1 for bytes that stand for themselves in a string. */
export const plainBytes = byteTable(byte => byte >= 0x20 && byte < 0x80 && byte !== ascii.quote && byte !== ascii.backslash)

/** 1 for what may follow a backslash, beside `u`. */
export const escapableBytes = byteTable(byte => '"\\/bfnrt'.includes(String.fromCharCode(byte)))

export const hexDigits = byteTable(byte => /[0-9a-fA-F]/.test(String.fromCharCode(byte)))

/** Where a number goes on after this byte; undefined when the byte does not belong to it. */
export const nextNumberState = (current: State, byte: number): State | undefined => {
  if (byte >= ascii.zero && byte <= ascii.nine) return stateAfterDigit(current, byte)
  switch (byte) {
    case ascii.point:
      return current === state.zero || current === state.integer ? state.decimalPoint : undefined
    case ascii.e:
    case ascii.E:
      return current !== state.exponent && canEndNumber(current) ? state.exponentMark : undefined
    case ascii.plus:
    case ascii.minus:
      return current === state.exponentMark ? state.exponentSign : undefined
    default:
      return undefined
  }
}

export const canEndNumber = (current: State): boolean =>
  current === state.zero || current === state.integer || current === state.fraction || current === state.exponent

const stateAfterDigit = (current: State, digit: number): State | undefined => {
  switch (current) {
    case state.minus:
      return digit === ascii.zero ? state.zero : state.integer
    case state.zero:
      return undefined
    case state.integer:
      return state.integer
    case state.decimalPoint:
    case state.fraction:
      return state.fraction
    default:
      return state.exponent
  }
}
