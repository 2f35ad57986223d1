import { idOf } from './line.ts'

/** What an answer must be. */
export interface Expected {
  /** The HTTP status. */
  readonly status: number
  /** The JSON text of each result. */
  readonly result?: string
  /** How many elements each result has. */
  readonly elements?: number
  /** The code of the error that must come in place of a result. */
  readonly code?: number
  /** How many calls each message holds; more than one is a batch, whose ids count from 1. */
  readonly batch?: number
}

/** An answer as it came in, its body in pieces. */
export interface Received {
  readonly status: number
  readonly body: readonly Buffer[]
  readonly length: number
}

/** Says what is wrong with the answer to call `n`. */
export type Check = (n: number, received: Received) => string | undefined

/** Of so many answers one is checked to the letter. */
const sample = 1000

/**
 * Checks each answer for its status, its kind, and that it is as long as the first one; the first and then each
 * thousandth is parsed and compared. Parsing all of them would cost more than the sending.
 */
export const createCheck = (expected: Expected): Check => {
  const member = expected.code === undefined ? '"result"' : '"error"'
  let seen = 0
  let usual = 0
  return (n, { status, body, length }) => {
    const begin = body.length === 1 ? (body[0] as Buffer) : Buffer.from(beginOf(body))
    const fault =
      status !== expected.status
        ? `HTTP ${status} in place of ${expected.status}`
        : begin.includes(member)
          ? undefined
          : `an answer without ${member}`
    if (fault !== undefined) return `${fault}: ${begin.toString('latin1', 0, 200)}`
    if (seen++ % sample === 0) {
      usual = length
      return checkFully(expected, n, Buffer.concat(body).toString())
    }
    return length === usual ? undefined : `an answer of ${length} bytes in place of ${usual}`
  }
}

/** The head of a long body, where the names of its members stand. */
const beginOf = (body: readonly Buffer[]): string =>
  body
    .slice(0, 4)
    .map(part => part.toString('latin1', 0, 200))
    .join('')

interface Answer {
  readonly id?: unknown
  readonly result?: unknown
  readonly error?: { readonly code?: unknown }
}

const checkFully = (expected: Expected, n: number, text: string): string | undefined => {
  const { batch } = expected
  const read = parse(text)
  if (read === undefined) return `an answer that is not JSON: ${text.slice(0, 200)}`
  const answers = (Array.isArray(read) ? read : [read]) as readonly Answer[] // each member is looked at below
  if (answers.length !== (batch ?? 1)) return `${answers.length} answers in place of ${batch ?? 1}`
  for (const [i, answer] of answers.entries()) {
    const id = batch === undefined ? idOf(n) : i + 1
    const wrong = checkOne(expected, id, answer)
    if (wrong !== undefined) return `${wrong}: ${JSON.stringify(answer).slice(0, 200)}`
  }
  return undefined
}

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** A refusal that comes before the body has been read cannot know the id. */
const checkOne = (expected: Expected, id: number, { id: found, result, error }: Answer): string | undefined =>
  found !== id && !(error !== undefined && found === null)
    ? `the id is not ${id}`
    : expected.code !== error?.code
      ? `the error is not ${expected.code ?? 'absent'}`
      : expected.result !== undefined && JSON.stringify(result) !== expected.result
        ? `the result is not ${expected.result}`
        : expected.elements !== undefined && !(Array.isArray(result) && result.length === expected.elements)
          ? `the result has not ${expected.elements} elements`
          : undefined
