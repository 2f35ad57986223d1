/** API keys, and tokens (JWT). People paste them where names and parameters belong. */
const keySource = 'tg_[0-9A-Za-z]{38}|eyJ[\\w-]+\\.[\\w-]+\\.[\\w-]+'
const anyKeyPattern = new RegExp(keySource)
const everyKeyPattern = new RegExp(keySource, 'g')
const cutKeyPattern = /(?:tg_[0-9A-Za-z]*|eyJ[\w.-]*)$/

export const hasKey = (text: string): boolean => (text.includes('tg_') || text.includes('eyJ')) && anyKeyPattern.test(text)

/** The text with `***` in place of keys. `isCut`: its end is missing, and with it perhaps that of a key. */
export const maskKeys = (text: string, isCut: boolean): string => {
  if (!text.includes('tg_') && !text.includes('eyJ')) return text
  const masked = text.replace(everyKeyPattern, '***')
  return isCut ? masked.replace(cutKeyPattern, '***') : masked
}

/** At most so many characters of the text, with `***` in place of keys. */
export const cutAndMaskKeys = (text: string, maxChars: number): string => maskKeys(text.slice(0, maxChars), text.length > maxChars)
