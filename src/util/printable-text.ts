/**
 * Control characters may be commands to the terminal that shows a text. Half of a surrogate pair is another character in each store. An
 * override of the direction reverses what is shown beside the text; the marks that right-to-left names need do not.
 */
export const unprintable = '\\p{Cc}\\p{Cs}\\p{Zl}\\p{Zp}\\u202a-\\u202e\\u2066-\\u2069'

/** What JSON and JavaScript have in place of a character of 16 bits. */
export const unicodeEscape = (char: string): string => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`

const plainPattern = /^[ !#-[\]-~]*$/

/** The JSON of a text, in ASCII. */
export const asciiJson = (text: string): string =>
  plainPattern.test(text) ? `"${text}"` : JSON.stringify(text).replace(/[^ -~]/g, unicodeEscape)

/** The pattern of a text on one line, which may be empty. */
export const printablePattern = (maxChars: number): string => `^[^${unprintable}]{0,${maxChars}}$`
