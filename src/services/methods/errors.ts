import type { Path } from '../../plugin.ts'
import type { Meaning, RpcError } from '../../reply.ts'
import { hintAt } from './hint.ts'
import type { Saying } from './language.ts'
import type { Complaint } from './sentence.ts'

/** What a node's error to a call of this method means; undefined when nobody has said. */
export type ReadError = (error: RpcError, method: string) => Meaning | undefined

/** Compiles the `errors` of a methods file: the first that fits holds. */
export const errorReader = (sayings: readonly Saying[]): ReadError => {
  const readers = sayings.map(readerOf)
  return ({ code, message }, method) => {
    const text = message.slice(0, longest).toLowerCase()
    return readers.find(reader => reader.fits(code, text, method))?.means
  }
}

/** What is wrong with sayings whose shape is right. */
export const errorComplaints = (sayings: readonly Saying[], methods: readonly string[]): readonly Complaint[] =>
  sayings.flatMap((saying, i) => {
    const path = ['errors', i]
    const idle = saying.code === undefined && saying.message === undefined
    return [...(idle ? [{ path, said: ' needs "code" or "message"' }] : []), ...unknownMethods(saying, [...path, 'methods'], methods)]
  })

const unknownMethods = ({ methods: named = [] }: Saying, path: Path, methods: readonly string[]): readonly Complaint[] =>
  named.flatMap((name, i) =>
    methods.includes(name)
      ? []
      : [{ path: [...path, i], said: ` is "${name}", which is not in the method table`, ...hintAt(name, methods) }],
  )

/** Characters of a message that are looked at. Nodes quote what callers sent, at any length. */
const longest = 2000

interface Reader {
  readonly means: Meaning
  fits(code: number, text: string, method: string): boolean
}

const readerOf = ({ means, code, message, methods }: Saying): Reader => {
  const codes = code === undefined ? undefined : new Set([code].flat())
  const patterns = message === undefined ? undefined : [message].flat().map(one => one.toLowerCase().split('*'))
  return {
    means,
    fits: (its, text, method) =>
      codes?.has(its) !== false && methods?.includes(method) !== false && patterns?.some(pieces => holds(text, pieces)) !== false,
  }
}

/** Do the pieces stand in the text, one behind the other? Each is looked for once: no text makes it slow. */
const holds = (text: string, pieces: readonly string[]): boolean => {
  let at = 0
  for (const piece of pieces) {
    const found = text.indexOf(piece, at)
    if (found < 0) return false
    at = found + piece.length
  }
  return true
}
