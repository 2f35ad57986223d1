/** A way to write bytes or a number as hex text, whatever the case of its letters. */
export interface HexFormat {
  /** What a caller is told to write. */
  readonly description: string
  matches(text: string): boolean
  /** One spelling for equal values. Only for a text that fits. */
  normalize(text: string): string
}

/** The names that parseForm() knows, as a pattern. */
export const hexFormatPattern = '^(([1-9]\\d{0,3}|up to [1-9]\\d{0,3}) bytes|bytes|number|number up to [1-9]\\d{0,2} bits)$'

/** The form that the table calls by this name; one that matches `formNames`. */
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

/** Leading zeros are allowed, up to 64 digits in all, and lost in the normal form. */
const numberFormat = (bits: number): HexFormat => ({
  description: 'a hex number with 0x',
  matches: matcher(new RegExp(`^0x(?=[0-9a-f]{1,64}$)0*[0-9a-f]{1,${Math.ceil(bits / 4)}}$`, 'i')),
  normalize: text => text.toLowerCase().replace(/^0x0+(?=.)/, '0x'),
})

/** How long a text is that should have been hex: ` (1 byte)`; empty when that would not help. */
export const describeHexSize = (text: string): string => {
  if (!hexPattern.test(text)) return /^[0-9a-f]+$/i.test(text) ? ' (without 0x)' : ''
  const digits = text.length - 2
  const [count, unit] = digits % 2 === 0 ? [digits / 2, 'byte'] : [digits, 'digit']
  return ` (${count} ${unit}${count === 1 ? '' : 's'})`
}
