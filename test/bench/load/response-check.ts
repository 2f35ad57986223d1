import { requestIdOf } from './connections.ts'

/** What a response must be. */
export interface ExpectedResponse {
  /** The HTTP status. */
  readonly status: number
  /** The JSON text of each result. */
  readonly result?: string
  /** The JSON texts of the results of a batch, in the order of its calls. */
  readonly results?: readonly string[]
  /** Number of elements of each result. */
  readonly resultCount?: number
  /** Code of the error that is expected instead of a result. */
  readonly errorCode?: number
  /** Number of calls in each message; absent for a single call. The ids of a batch count from 1. */
  readonly batchSize?: number
}

/** A response as it was received, its body in chunks. */
export interface ReceivedResponse {
  readonly status: number
  readonly body: readonly Buffer[]
  readonly bodyBytes: number
}

/** Describes what is wrong with the response to call `n`. */
export type ResponseCheck = (n: number, received: ReceivedResponse) => string | undefined

/** One of so many responses is parsed and compared. */
const responsesPerFullCheck = 1000

/** How much of a wrong response a message shows. */
const maxShownChars = 200

/**
 * Checks the status of each response, whether it is a result or an error, and that it is as long as the first; the first
 * and then each thousandth is parsed and compared. Parsing all of them would cost more than sending the calls.
 */
export const createResponseCheck = (expected: ExpectedResponse): ResponseCheck => {
  const member = expected.errorCode === undefined ? '"result"' : '"error"'
  let checkedCount = 0
  let expectedBytes = 0
  return (n, { status, body, bodyBytes: length }) => {
    const bodyStart = body.length === 1 ? (body[0] as Buffer) : Buffer.from(bodyStartOf(body))
    const fault =
      status !== expected.status
        ? `HTTP ${status} instead of ${expected.status}`
        : bodyStart.includes(member)
          ? undefined
          : `a response without ${member}`
    if (fault !== undefined) return `${fault}: ${bodyStart.toString('latin1', 0, maxShownChars)}`
    if (checkedCount++ % responsesPerFullCheck === 0) {
      expectedBytes = length
      return checkContent(expected, n, Buffer.concat(body).toString())
    }
    return length === expectedBytes ? undefined : `a response of ${length} bytes instead of ${expectedBytes}`
  }
}

/** The beginning of a long body, which holds the names of its members. */
const bodyStartOf = (body: readonly Buffer[]): string =>
  body
    .slice(0, 4)
    .map(part => part.toString('latin1', 0, maxShownChars))
    .join('')

interface RpcResponse {
  readonly id?: unknown
  readonly result?: unknown
  readonly error?: { readonly code?: unknown }
}

const checkContent = (expected: ExpectedResponse, n: number, text: string): string | undefined => {
  const { batchSize } = expected
  const parsed = parseJson(text)
  if (parsed === undefined) return `a response that is not JSON: ${text.slice(0, maxShownChars)}`
  const responses = (Array.isArray(parsed) ? parsed : [parsed]) as readonly RpcResponse[] // each member is checked below
  if (responses.length !== (batchSize ?? 1)) return `${responses.length} responses instead of ${batchSize ?? 1}`
  for (const [i, response] of responses.entries()) {
    const id = batchSize === undefined ? requestIdOf(n) : i + 1
    const fault = checkResponse(resultExpectedAt(expected, i), id, response)
    if (fault !== undefined) return `${fault}: ${JSON.stringify(response).slice(0, maxShownChars)}`
  }
  return undefined
}

const resultExpectedAt = (expected: ExpectedResponse, i: number): ExpectedResponse => {
  const result = expected.results?.[i]
  return result === undefined ? expected : { ...expected, result }
}

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** An error that is sent before the body has been read has the id null. */
const checkResponse = (expected: ExpectedResponse, id: number, { id: found, result, error }: RpcResponse): string | undefined =>
  found !== id && !(error !== undefined && found === null)
    ? `the id is not ${id}`
    : expected.errorCode !== error?.code
      ? `the error is not ${expected.errorCode ?? 'absent'}`
      : expected.result !== undefined && JSON.stringify(result) !== expected.result
        ? `the result is not ${expected.result}`
        : expected.resultCount !== undefined && !(Array.isArray(result) && result.length === expected.resultCount)
          ? `the result does not have ${expected.resultCount} elements`
          : undefined
