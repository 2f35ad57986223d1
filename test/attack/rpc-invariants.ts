/** HTTP statuses that a message may get, whatever it holds. */
const statuses = [200, 204, 400, 402, 408, 413, 415, 429, 503]

const internalErrorCode = -32603

/** The first rule of JSON-RPC 2.0 that a response breaks, in words; undefined when it breaks none. */
export const findFault = (message: string, response: string, status = 200): string | undefined => {
  if (!statuses.includes(status)) return `HTTP status ${status}`
  if (response === '') return status === 204 ? undefined : `an empty body with HTTP status ${status}`
  const parsed = parse(response)
  if (parsed === undefined) return 'the response is not JSON'
  const members: readonly unknown[] = Array.isArray(parsed) ? parsed : [parsed]
  return members.map(findMemberFault).find(fault => fault !== undefined) ?? findIdFault(parse(asSent(message)), parsed)
}

/** In UTF-8, which half of a surrogate pair cannot be written in. */
const asSent = (message: string): string => Buffer.from(message).toString()

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const findMemberFault = (member: unknown): string | undefined => {
  const { jsonrpc, id, result, error } = Object(member) as Readonly<Record<string, unknown>>
  if (jsonrpc !== '2.0') return 'jsonrpc is not 2.0'
  if (id === undefined) return 'the id is missing'
  if ((result === undefined) === (error === undefined)) return 'not exactly one of result and error'
  if (error === undefined) return undefined
  const { code, message } = Object(error) as Readonly<Record<string, unknown>>
  if (!Number.isInteger(code) || typeof message !== 'string') return 'the error has no integer code or no message'
  return code === internalErrorCode ? 'an internal error' : undefined
}

/** The id comes back as it was; `null` is accepted, because a message may be rejected before its id is read. */
const findIdFault = (message: unknown, response: unknown): string | undefined => {
  const sent = idsIn(message)
  if (sent === undefined) return undefined
  const stranger = (idsIn(response) ?? []).find(id => id !== null && !sent.includes(id))
  return stranger === undefined ? undefined : `the id ${JSON.stringify(stranger)} was not sent`
}

const idsIn = (value: unknown): readonly unknown[] | undefined => {
  if (value === undefined) return undefined
  const members: readonly unknown[] = Array.isArray(value) ? value : [value]
  return members.map(member => (Object(member) as { readonly id?: unknown }).id)
}
