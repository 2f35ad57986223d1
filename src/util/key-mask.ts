/** What begins as nearly all tokens (JWT) do, `{"`: what is no whole text is recognized by that. */
const jwtSource = 'eyJ[\\w-]+\\.[\\w-]+\\.[\\w-]*'

/** Is this the form of a token (JWT), as opposed to a key of the gateway: three parts in base64url (RFC 7515, 7.1)? */
export const isJwt = (text: string): boolean => compactPattern.test(text)

const compactPattern = /^[\w-]+\.[\w-]+\.[\w-]*$/

/**
 * API keys, and tokens (JWT). People paste them where names and parameters belong. So many characters of a key are masked as the whole is: messages quote
 * the beginning of a long name, and of a key the last 6 characters can be computed. `_` may be escaped as in URLs.
 */
const keySource = `tg(?:_|%5[Ff])[0-9A-Za-z]{16,}|${jwtSource}`
const anyKeyPattern = new RegExp(keySource)
const everyKeyPattern = new RegExp(keySource, 'g')
const cutKeyPattern = /(?:tg(?:_|%5[Ff])[0-9A-Za-z]*|eyJ[\w.-]*)$/

export const hasKey = (text: string): boolean => mayHaveKey(text) && anyKeyPattern.test(text)

/** Most texts have none. */
const mayHaveKey = (text: string): boolean => text.includes('tg') || text.includes('eyJ')

/** The text with `***` in place of keys. `isCut`: its end is missing, and with it perhaps that of a key. */
export const maskKeys = (text: string, isCut: boolean): string => {
  if (!mayHaveKey(text)) return text
  const masked = text.replace(everyKeyPattern, '***')
  return isCut ? masked.replace(cutKeyPattern, '***') : masked
}

/** At most so many characters of the text, with `***` in place of keys. */
export const cutAndMaskKeys = (text: string, maxChars: number): string => maskKeys(text.slice(0, maxChars), text.length > maxChars)
