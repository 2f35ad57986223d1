/** What must follow the bytes of a character that have come (UTF-8, RFC 3629): bounds of the next byte, and what then. */
export interface Utf8Continuation {
  readonly min: number
  readonly max: number
  /** Undefined when that byte is the last one. */
  readonly next: Utf8Continuation | undefined
}

const oneMoreByte: Utf8Continuation = { min: 0x80, max: 0xbf, next: undefined }
const twoMoreBytes: Utf8Continuation = { min: 0x80, max: 0xbf, next: oneMoreByte }
const threeMoreBytes: Utf8Continuation = { min: 0x80, max: 0xbf, next: twoMoreBytes }

// None is written in more bytes than it needs, is half of a pair of UTF-16, or lies above U+10FFFF.
const afterE0: Utf8Continuation = { min: 0xa0, max: 0xbf, next: oneMoreByte }
const afterED: Utf8Continuation = { min: 0x80, max: 0x9f, next: oneMoreByte }
const afterF0: Utf8Continuation = { min: 0x90, max: 0xbf, next: twoMoreBytes }
const afterF4: Utf8Continuation = { min: 0x80, max: 0x8f, next: twoMoreBytes }

/** What must follow the first of several bytes; undefined when no character begins with it. */
export const continuationAfter = (first: number): Utf8Continuation | undefined => {
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
      return first < 0xc2 || first > 0xf4 ? undefined : first < 0xe0 ? oneMoreByte : first < 0xf0 ? twoMoreBytes : threeMoreBytes
  }
}
