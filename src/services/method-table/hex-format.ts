/** A format of bytes or of a number as a hex string, in upper or lower case. */
export interface HexFormat {
  /** For error messages. */
  readonly description: string
  matches(text: string): boolean
  /** One spelling for equal values; only for a text that matches. */
  normalize(text: string): string
}

/** The names that parseHexFormat() accepts. */
export const hexFormatPattern = '^(([1-9]\\d{0,3}|up to [1-9]\\d{0,3}) bytes|bytes|number|number up to [1-9]\\d{0,2} bits)$'

/** The format of this name, which matches `hexFormatPattern`. */
export const parseHexFormat = (name: string): HexFormat => {
  const [, upTo, count] = /^(up to )?(\d+) bytes$/.exec(name) ?? []
  if (name === 'bytes') return wholeBytesFormat
  if (count === undefined) return numberFormat(Number(/\d+/.exec(name)?.[0] ?? 256))
  const digits = 2 * Number(count)
  return {
    description: `${name} of hex with 0x`,
    matches: matcher(new RegExp(`^0x[0-9a-f]{${upTo === undefined ? digits : `0,${digits}`}}$`, 'i')),
    normalize: text => text.toLowerCase(),
  }
}

const matcher =
  (pattern: RegExp) =>
  (text: string): boolean =>
    pattern.test(text)

const hexPattern = /^0x[0-9a-f]*$/i

const wholeBytesFormat: HexFormat = {
  description: 'whole bytes of hex with 0x',
  matches: text => text.length % 2 === 0 && hexPattern.test(text),
  normalize: text => text.toLowerCase(),
}

/** Leading zeros are accepted, up to 64 digits in all, and removed by normalize(). */
const numberFormat = (bits: number): HexFormat => ({
  description: 'a hex number with 0x',
  matches: matcher(new RegExp(`^0x(?=[0-9a-f]{1,64}$)0*[0-9a-f]{1,${Math.ceil(bits / 4)}}$`, 'i')),
  normalize: text => text.toLowerCase().replace(/^0x0+(?=.)/, '0x'),
})

/** The size of a text that should have had a hex format: ` (1 byte)`; empty when the size does not help. */
export const describeHexSize = (text: string): string => {
  if (!hexPattern.test(text)) return /^[0-9a-f]+$/i.test(text) ? ' (without 0x)' : ''
  const digits = text.length - 2
  const [count, unit] = digits % 2 === 0 ? [digits / 2, 'byte'] : [digits, 'digit']
  return ` (${count} ${unit}${count === 1 ? '' : 's'})`
}
