import type { WebSocket } from 'ws'
import { joinBody } from '../wire/write.ts'
import type { Body } from '../wire/write.ts'

/**
 * A whole message as the one frame in which a server sends it (RFC 6455, 5.2), one character per byte, up to 65,535 of
 * them. Written to the socket as it is: ws would copy the text into a buffer, and write head and body apart.
 */
export const textFrame = (text: string): string => {
  const { length } = text
  const size = length < 126 ? String.fromCharCode(length) : String.fromCharCode(126, length >> 8, length & 0xff)
  return `\x81${size}${text}`
}

/** Up to here a message goes out in one frame; a longer one in frames of its pieces, so that it need not be copied. */
const short = 65_536

/** Sends text in one frame or in several; `sent` is called when the last has left for the kernel. */
export const sendBody = (socket: WebSocket, body: Body, sent?: () => void): void => {
  if (body.length <= short) return socket.send(joinBody(body), { binary: false }, sent)
  const last = body.pieces.length - 1
  body.pieces.forEach((piece, i) => {
    const bytes = typeof piece === 'string' ? Buffer.from(piece, 'latin1') : piece
    socket.send(bytes, { binary: false, fin: i === last }, i === last ? sent : undefined)
  })
}
