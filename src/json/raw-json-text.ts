import { ChunkedBytes, toBuffer } from './chunked-bytes.ts'
import type { RawJson } from './chunked-bytes.ts'

/** The same text, which no longer keeps the one alive that it was cut from, as it does in V8. */
export const detach = (text: string): string => ` ${text}`.slice(1)

/** The bytes as text of one character per byte: offsets stay, and any bytes come back unchanged. */
export const toLatin1 = (text: RawJson, start = 0, end = text.byteLength): string =>
  text instanceof ChunkedBytes ? toLatin1(toBuffer(text.subarray(start, end))) : toBuffer(text).toString('latin1', start, end)

export const toUtf8 = (text: RawJson, start = 0, end = text.byteLength): string => toBuffer(text.subarray(start, end)).toString('utf8')

/** A member's name with its escapes resolved: `\u0069d` is `id`. */
export const unescapeName = (raw: string): string => (raw.includes('\\') ? String(JSON.parse(`"${raw}"`)) : raw)
