import { bodyToBuffer } from '../json-rpc/handle-message.ts'
import type { ResponseBody } from '../json-rpc/handle-message.ts'

/**
 * A whole message as one frame of a server (RFC 6455, 5.2), one character per byte, up to 65,535 of them. It is written to
 * the socket directly: ws would copy the text into a buffer, and write header and payload apart. With the Sender of ws a
 * cached call over WebSocket takes 1.12 to 1.16 times the CPU.
 */
export const encodeTextFrame = (text: string): string => {
  const { length } = text
  const size = length < 126 ? String.fromCharCode(length) : String.fromCharCode(126, length >> 8, length & 0xff)
  return `\x81${size}${text}`
}

/** Most bytes of a frame. */
const maxFrameBytes = 131_072

/** One frame of a long message. Head and payload go out together; what comes between frames may only be pings, pongs and the close. */
export interface Frame {
  readonly header: Uint8Array
  readonly payload: Uint8Array
}

/** A text of any length as frames of its pieces and of parts of these, so that none of it need be copied. */
export const splitIntoFrames = (body: ResponseBody): readonly Frame[] => {
  const parts = body.byteLength <= maxFrameBytes ? [bodyToBuffer(body)] : body.chunks.flatMap(splitChunk)
  const last = parts.length - 1
  return parts.map((payload, i) => ({ header: encodeFrameHeader(payload.length, { isFirst: i === 0, isLast: i === last }), payload }))
}

const splitChunk = (chunk: string | Uint8Array): Uint8Array[] => {
  const bytes = typeof chunk === 'string' ? Buffer.from(chunk, 'latin1') : chunk
  const parts: Uint8Array[] = []
  for (let at = 0; at < bytes.length; at += maxFrameBytes) parts.push(bytes.subarray(at, at + maxFrameBytes))
  return parts
}

const encodeFrameHeader = (length: number, { isFirst, isLast }: { isFirst: boolean; isLast: boolean }): Uint8Array => {
  const start = (isFirst ? 0x01 : 0x00) | (isLast ? 0x80 : 0x00)
  if (length < 126) return Buffer.of(start, length)
  if (length < 65_536) return Buffer.of(start, 126, length >> 8, length & 0xff)
  return Buffer.of(start, 127, 0, 0, 0, 0, length >>> 24, (length >> 16) & 0xff, (length >> 8) & 0xff, length & 0xff)
}
