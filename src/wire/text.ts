import { Pieces, wholeOf } from '../pieces.ts'
import type { Text } from '../pieces.ts'

/** The same text, which no longer keeps the one alive that it was cut from, as it does in V8. */
export const onItsOwn = (text: string): string => ` ${text}`.slice(1)

/** The bytes as text of one character per byte: offsets stay, and any bytes come back unchanged. */
export const latin1 = (text: Text, start = 0, end = text.byteLength): string =>
  text instanceof Pieces ? latin1(wholeOf(text.subarray(start, end))) : wholeOf(text).toString('latin1', start, end)

export const utf8 = (text: Text, start = 0, end = text.byteLength): string => wholeOf(text.subarray(start, end)).toString('utf8')

/** A member's name with its escapes resolved: `\u0069d` is `id`. */
export const readName = (raw: string): string => (raw.includes('\\') ? String(JSON.parse(`"${raw}"`)) : raw)
