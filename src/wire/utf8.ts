/** What must follow the bytes of a character that have come (UTF-8, RFC 3629): bounds of the next byte, and what then. */
export interface Tail {
  readonly low: number
  readonly high: number
  /** Undefined when that byte is the last one. */
  readonly then: Tail | undefined
}

const one: Tail = { low: 0x80, high: 0xbf, then: undefined }
const two: Tail = { low: 0x80, high: 0xbf, then: one }
const three: Tail = { low: 0x80, high: 0xbf, then: two }

// None is written in more bytes than it needs, is half of a pair of UTF-16, or lies above U+10FFFF.
const afterE0: Tail = { low: 0xa0, high: 0xbf, then: one }
const afterED: Tail = { low: 0x80, high: 0x9f, then: one }
const afterF0: Tail = { low: 0x90, high: 0xbf, then: two }
const afterF4: Tail = { low: 0x80, high: 0x8f, then: two }

/** What must follow the first of several bytes; undefined when no character begins with it. */
export const tailOf = (first: number): Tail | undefined => {
  switch (first) {
    case 0xe0:
      return afterE0
    case 0xed:
      return afterED
    case 0xf0:
      return afterF0
    case 0xf4:
      return afterF4
    default:
      return first < 0xc2 || first > 0xf4 ? undefined : first < 0xe0 ? one : first < 0xf0 ? two : three
  }
}
