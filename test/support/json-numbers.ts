/**
 * The value of a JSON text with a text in place of each number: equal for two texts only if they have the same numbers, digit
 * for digit. Strings and names become hex digits of their characters after `s`, to be told from numbers, and because V8 14.6
 * mistakes some escaped names.
 */
export const withNumbersAsTexts = (text: string): unknown =>
  JSON.parse(
    text.replace(/"(?:[^"\\]|\\.)*"|-?\d[-+.\w]*/g, token => `"${token.startsWith('"') ? `s${hexOf(token)}` : `number ${token}`}"`),
  )

const hexOf = (quoted: string): string => Buffer.from(String(JSON.parse(quoted)), 'utf16le').toString('hex')
