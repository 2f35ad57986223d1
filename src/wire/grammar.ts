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
  hex: 8,
  character: 9,
  word: 10,
  // In a number, by what came last.
  minus: 11,
  zero: 12,
  integer: 13,
  point: 14,
  fraction: 15,
  e: 16,
  eSign: 17,
  exponent: 18,
  refused: 19,
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

const table = (test: (byte: number) => boolean): Uint8Array => Uint8Array.from({ length: 256 }, (_, byte) => (test(byte) ? 1 : 0))

/** 1 for bytes that stand for themselves in a string. */
export const plain = table(byte => byte >= 0x20 && byte < 0x80 && byte !== ascii.quote && byte !== ascii.backslash)

/** 1 for what may follow a backslash, beside `u`. */
export const escapable = table(byte => '"\\/bfnrt'.includes(String.fromCharCode(byte)))

export const hexadecimal = table(byte => /[0-9a-fA-F]/.test(String.fromCharCode(byte)))

/** Where a number goes on after this byte; undefined when the byte does not belong to it. */
export const nextInNumber = (now: State, byte: number): State | undefined => {
  if (byte >= ascii.zero && byte <= ascii.nine) return afterDigit(now, byte)
  switch (byte) {
    case ascii.point:
      return now === state.zero || now === state.integer ? state.point : undefined
    case ascii.e:
    case ascii.E:
      return now !== state.exponent && mayEndNumber(now) ? state.e : undefined
    case ascii.plus:
    case ascii.minus:
      return now === state.e ? state.eSign : undefined
    default:
      return undefined
  }
}

export const mayEndNumber = (now: State): boolean =>
  now === state.zero || now === state.integer || now === state.fraction || now === state.exponent

const afterDigit = (now: State, digit: number): State | undefined => {
  switch (now) {
    case state.minus:
      return digit === ascii.zero ? state.zero : state.integer
    case state.zero:
      return undefined
    case state.integer:
      return state.integer
    case state.point:
    case state.fraction:
      return state.fraction
    default:
      return state.exponent
  }
}
