import { definePlugin, ExactNumber, isJsonObject, refuse, withContext } from '../src/plugin/plugin.ts'
import type { Failure, Json, JsonObject, Request } from '../src/plugin/plugin.ts'

/** The request envelope of contract 2.2; unless `strict`, as JSON-RPC 2.0 allows it and clients send it. */
export default definePlugin({
  name: 'envelope',
  summary: 'Checks the shape of a request: jsonrpc, method, params, id.',
  options: {
    type: 'object',
    properties: {
      strict: {
        type: 'boolean',
        default: false,
        description: 'Requires a numeric id and a params array in each request; viem, cast, geth and web3 then fail.',
      },
    },
  },
  writes: ['request'],
  create({ strict }) {
    const checkIdAndParams = strict ? checkStrictly : checkId
    return (call, next) => {
      const request = readRequest(call.message, checkIdAndParams)
      return 'error' in request ? Promise.resolve(request) : next(withContext(call, { request }))
    }
  },
})

const readRequest = (message: Json, checkIdAndParams: (message: JsonObject) => Failure | undefined): Request | Failure => {
  if (!isJsonObject(message)) return invalidRequest('it must be an object')
  const failure = checkVersionAndMethod(message) ?? checkIdAndParams(message)
  if (failure !== undefined) return failure
  const method = message['method'] as string // checked above
  const params = message['params'] ?? []
  return Array.isArray(params) ? { method, params } : refuse('params', { message: `params must be an array, not ${describeType(params)}` })
}

const checkVersionAndMethod = (message: JsonObject): Failure | undefined => {
  if (message['jsonrpc'] !== '2.0') return invalidRequest('jsonrpc must be "2.0"')
  if (typeof message['method'] !== 'string') return invalidRequest('method must be a string')
  return undefined
}

const checkId = ({ id }: JsonObject): Failure | undefined =>
  id === undefined || id === null || typeof id === 'number' || typeof id === 'string'
    ? undefined
    : invalidRequest(`id must be a number, a string or null, not ${describeType(id)}`)

const checkStrictly = ({ id, params }: JsonObject): Failure | undefined => {
  if (typeof id !== 'number') return invalidRequest(`id must be a number, not ${describeType(id)}`)
  if (!Array.isArray(params)) return invalidRequest(`params must be an array, not ${describeType(params)}`)
  return undefined
}

const invalidRequest = (reason: string): Failure => refuse('invalid', { message: `invalid request: ${reason}` })

const describeType = (value: Json | undefined): string =>
  value === undefined
    ? 'absent'
    : value === null
      ? 'null'
      : Array.isArray(value)
        ? 'an array'
        : isJsonObject(value)
          ? 'an object'
          : `a ${value instanceof ExactNumber ? 'number' : typeof value}`
