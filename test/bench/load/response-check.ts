import { requestIdOf } from './connections.ts'

/** What an answer must be. */
export interface ExpectedResponse {
  /** The HTTP status. */
  readonly status: number
  /** The JSON text of each result. */
  readonly result?: string
  /** How many elements each result has. */
  readonly resultCount?: number
  /** The code of the error that must come in place of a result. */
  readonly errorCode?: number
  /** How many calls each message holds; more than one is a batch, whose ids count from 1. */
  readonly batchSize?: number
}

/** An answer as it came in, its body in pieces. */
export interface ReceivedResponse {
  readonly status: number
  readonly body: readonly Buffer[]
  readonly bodyBytes: number
}

/** Says what is wrong with the answer to call `n`. */
export type ResponseCheck = (n: number, received: ReceivedResponse) => string | undefined

/** Of so many answers one is checked to the letter. */
const fullCheckInterval = 1000

/**
 * Checks each answer for its status, its kind, and that it is as long as the first one; the first and then each
 * thousandth is parsed and compared. Parsing all of them would cost more than the sending.
 */
export const createResponseCheck = (expected: ExpectedResponse): ResponseCheck => {
  const member = expected.errorCode === undefined ? '"result"' : '"error"'
  let checkedCount = 0
  let expectedBytes = 0
  return (n, { status, body, bodyBytes: length }) => {
    const bodyStart = body.length === 1 ? (body[0] as Buffer) : Buffer.from(bodyStartOf(body))
    const fault =
      status !== expected.status
        ? `HTTP ${status} in place of ${expected.status}`
        : bodyStart.includes(member)
          ? undefined
          : `an answer without ${member}`
    if (fault !== undefined) return `${fault}: ${bodyStart.toString('latin1', 0, 200)}`
    if (checkedCount++ % fullCheckInterval === 0) {
      expectedBytes = length
      return checkContent(expected, n, Buffer.concat(body).toString())
    }
    return length === expectedBytes ? undefined : `an answer of ${length} bytes in place of ${expectedBytes}`
  }
}

/** The head of a long body, where the names of its members stand. */
const bodyStartOf = (body: readonly Buffer[]): string =>
  body
    .slice(0, 4)
    .map(part => part.toString('latin1', 0, 200))
    .join('')

interface RpcResponse {
  readonly id?: unknown
  readonly result?: unknown
  readonly error?: { readonly code?: unknown }
}

const checkContent = (expected: ExpectedResponse, n: number, text: string): string | undefined => {
  const { batchSize: batch } = expected
  const parsed = parseJson(text)
  if (parsed === undefined) return `an answer that is not JSON: ${text.slice(0, 200)}`
  const responses = (Array.isArray(parsed) ? parsed : [parsed]) as readonly RpcResponse[] // each member is looked at below
  if (responses.length !== (batch ?? 1)) return `${responses.length} answers in place of ${batch ?? 1}`
  for (const [i, answer] of responses.entries()) {
    const id = batch === undefined ? requestIdOf(n) : i + 1
    const wrong = checkResponse(expected, id, answer)
    if (wrong !== undefined) return `${wrong}: ${JSON.stringify(answer).slice(0, 200)}`
  }
  return undefined
}

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** A refusal that comes before the body has been read cannot know the id. */
const checkResponse = (expected: ExpectedResponse, id: number, { id: found, result, error }: RpcResponse): string | undefined =>
  found !== id && !(error !== undefined && found === null)
    ? `the id is not ${id}`
    : expected.errorCode !== error?.code
      ? `the error is not ${expected.errorCode ?? 'absent'}`
      : expected.result !== undefined && JSON.stringify(result) !== expected.result
        ? `the result is not ${expected.result}`
        : expected.resultCount !== undefined && !(Array.isArray(result) && result.length === expected.resultCount)
          ? `the result has not ${expected.resultCount} elements`
          : undefined
