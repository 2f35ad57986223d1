import { directStage } from '../src/plugin/internal.ts'
import { definePlugin, isJsonObject, refuse, refuseUnknownMethod, withContext } from '../src/plugin/plugin.ts'
import type { Failure, Json, JsonObject, Request, Services } from '../src/plugin/plugin.ts'

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
  create({ strict }, { offers }) {
    const readRequest = strict ? readStrictly : readLeniently
    return directStage({
      handle(call, next) {
        const request = readRequest(call.message, offers)
        return 'error' in request ? request : next(withContext(call, { request }))
      },
      explain: () => ({
        text: [
          strict
            ? 'requires `jsonrpc: "2.0"`, a numeric id and a params array'
            : 'requires `jsonrpc: "2.0"`; the id is a number, a string or null, and params may be missing',
        ],
      }),
    })
  },
})

type ReadRequest = (message: Json, offers: Services['offers']) => Request | Failure

const readLeniently: ReadRequest = (message, offers) => {
  if (!isJsonObject(message)) return notAnObject
  const failure = checkVersionAndMethod(message) ?? checkId(message)
  return failure ?? readParams(message, message['params'] ?? [], offers, invalidParams)
}

const readStrictly: ReadRequest = (message, offers) => {
  if (!isJsonObject(message)) return notAnObject
  const failure = checkVersionAndMethod(message) ?? checkStrictId(message)
  return failure ?? readParams(message, message['params'], offers, invalidRequest)
}

/** That a method is unknown comes before what is wrong with its params: clients try methods, some with named params. */
const readParams = (
  message: JsonObject,
  params: Json | undefined,
  offers: Services['offers'],
  refuseParams: typeof invalidParams,
): Request | Failure => {
  const method = message['method'] as string // checked before
  if (Array.isArray(params)) return { method, params }
  return offers(method) ? refuseParams(`params must be an array, not ${describeType(params)}`) : refuseUnknownMethod(method)
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

const checkStrictId = ({ id }: JsonObject): Failure | undefined =>
  typeof id === 'number' ? undefined : invalidRequest(`id must be a number, not ${describeType(id)}`)

const invalidRequest = (reason: string): Failure => refuse('invalid', { message: `invalid request: ${reason}` })

const invalidParams = (issue: string): Failure => refuse('params', { message: issue })

const notAnObject = invalidRequest('it must be an object')

const describeType = (value: Json | undefined): string =>
  value === undefined
    ? 'absent'
    : value === null
      ? 'null'
      : Array.isArray(value)
        ? 'an array'
        : isJsonObject(value)
          ? 'an object'
          : `a ${typeof value}`
