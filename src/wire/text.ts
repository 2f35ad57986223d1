/** The bytes as text of one character per byte: offsets stay, and any bytes come back unchanged. */
export const latin1 = (bytes: Uint8Array, start = 0, end = bytes.length): string =>
  asBuffer(bytes).toString('latin1', start, end)

export const utf8 = (bytes: Uint8Array, start = 0, end = bytes.length): string =>
  asBuffer(bytes).toString('utf8', start, end)

/** A member's name with its escapes resolved: `\u0069d` is `id`. */
export const readName = (raw: string): string => raw.includes('\\') ? String(JSON.parse(`"${raw}"`)) : raw

const asBuffer = (bytes: Uint8Array): Buffer =>
  Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
