import { remembering } from '../frozen.ts'
import { Pieces } from '../pieces.ts'
import { isFailure } from '../reply.ts'
import type { Reply, RpcError } from '../reply.ts'
import { latin1 } from './text.ts'

/** A message to send: pieces in order, so that long ones need no copy. Text holds one byte per character (latin1). */
export interface Body {
  readonly pieces: readonly (string | Uint8Array)[]
  /** Bytes of all pieces together. */
  readonly length: number
}

/** The response to one call. `id` is the caller's id as it came, and a result goes out as the node wrote it. */
export const writeReply = (id: string, reply: Reply): Body => {
  const failed = isFailure(reply)
  const value = failed ? errorText(reply.error) : reply.result
  const head = `{"jsonrpc":"2.0","id":${id},"${failed ? 'error' : 'result'}":`
  if (value instanceof Pieces) return { pieces: [head, ...value.list, '}'], length: head.length + value.byteLength + 1 }
  return { pieces: [head, value, '}'], length: head.length + value.length + 1 }
}

/** As bytes where it is not ASCII. A refusal that is given again and again is written once. */
const errorText = remembering((error: RpcError) => bytesOf(JSON.stringify(error)))

/** A text of ASCII only stands for its bytes as it is. */
const bytesOf = (text: string): string | Uint8Array => (/[^\x00-\x7f]/.test(text) ? Buffer.from(text) : text)

/** The response to a batch. Short pieces are copied together, as sending a piece costs more than copying it. */
export const writeBatch = (bodies: readonly Body[]): Body => {
  const pieces: (string | Uint8Array)[] = []
  let length = 1
  let text = '['
  for (const body of bodies) {
    for (const piece of body.pieces) {
      if (typeof piece === 'string') text += piece
      else if (piece.length <= short) text += latin1(piece)
      else {
        pieces.push(text, piece)
        text = ''
      }
    }
    text += ','
    length += body.length + 1
  }
  pieces.push(`${text.slice(0, -1)}]`)
  return { pieces, length }
}

const short = 16_384

/** A short message as one text, one byte per character (latin1). */
export const bodyText = ({ pieces }: Body): string => {
  let text = ''
  for (const piece of pieces) text += typeof piece === 'string' ? piece : latin1(piece)
  return text
}

/** The whole message in one piece, copied. */
export const joinBody = ({ pieces, length }: Body): Buffer => {
  const bytes = Buffer.allocUnsafe(length)
  let at = 0
  for (const piece of pieces) {
    if (typeof piece === 'string') bytes.write(piece, at, 'latin1')
    else bytes.set(piece, at)
    at += piece.length
  }
  return bytes
}
