import { piecesOf, wholeOf } from '../../pieces.ts'
import type { Text } from '../../pieces.ts'
import { NodeAnswer } from '../../wire/node.ts'

/** A result that stands for as long as a block does. */
export interface Entry {
  /** The JSON text of the result, as the node wrote it. */
  readonly result: Text
  /** How many elements it has, when it is an array. */
  readonly count?: number | undefined
  /** The final block that the node knew when it was asked: on a chain that has it, the result is right. */
  readonly under: { readonly number: number; readonly hash: string }
}

/** Changes when entries change so that an older Tollgate would misread them; a part of every key too. */
export const version = 1

/** More than whatever stands before a result. */
export const margin = 512

/** One line about the entry, then the result as a node would send it, so that it is read with the same care. */
export const writeEntry = (name: string, { result, under }: Entry): Buffer =>
  Buffer.concat([Buffer.from(`${lineOf(name, under)}\n${opening}`), ...piecesOf(result), Buffer.from('}')])

/** Undefined for what is no entry of this name: cut off, written by another version, or by somebody else. */
export const readEntry = (name: string, bytes: Buffer): Entry | undefined => {
  const end = bytes.subarray(0, margin).indexOf(0x0a)
  const [, number, hash = ''] = /^\S+ \S+ (\d{1,15}) (0x[0-9a-f]{1,64})$/.exec(bytes.toString('latin1', 0, Math.max(0, end))) ?? []
  const under = { number: Number(number), hash }
  if (number === undefined || bytes.toString('latin1', 0, end) !== lineOf(name, under)) return undefined
  const answer = new NodeAnswer()
  if (!answer.push(bytes.subarray(end + 1))) return undefined
  const read = answer.read(id)
  if (read.kind !== 'result' || read.partial !== undefined) return undefined
  // A copy, as it is kept for long: what came from the connection may be a part of something larger.
  return { result: Buffer.from(wholeOf(read.text)), count: read.count, under }
}

const lineOf = (name: string, { number, hash }: Entry['under']): string => `${version} ${name} ${number} ${hash}`

const id = 1
const opening = `{"jsonrpc":"2.0","id":${id},"result":`
