const tokenPattern = /"(?:[^"\\]|\\.)*"|-?\d[-+.\w]*/g

/**
 * The value of a JSON text, with -0 as 0. Strings and names become hex digits of their characters after `s`, because V8 14.6 mistakes
 * some escaped names.
 */
export const withNamesAsTexts = (text: string): unknown =>
  JSON.parse(text.replace(tokenPattern, token => (token.startsWith('"') ? `"s${hexOf(token)}"` : String(Number(token) + 0))))

/** Whether the JSON text has a number that JavaScript does not hold exactly: an integer beyond 2^53 - 1, or what is beyond all numbers. */
export const hasInexactNumber = (text: string): boolean =>
  (text.match(tokenPattern) ?? []).some(token => Math.abs(Number(token)) > Number.MAX_SAFE_INTEGER)

const hexOf = (quoted: string): string => Buffer.from(String(JSON.parse(quoted)), 'utf16le').toString('hex')
