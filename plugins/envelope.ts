import { directStage, refuseUnknownMethod } from '../src/plugin/internal.ts'
import { definePlugin, isJsonObject, refuse, withContext } from '../src/plugin/plugin.ts'
import type { Failure, Json, Request, Services } from '../src/plugin/plugin.ts'

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
    const options = { strict, offers }
    return directStage({
      handle(call, next) {
        const request = readRequest(call.message, options)
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

interface ReadOptions extends Pick<Services, 'offers'> {
  readonly strict: boolean
}

/** That a method is unknown comes before what is wrong with its params: clients try methods, some with named params. */
const readRequest = (message: Json, { strict, offers }: ReadOptions): Request | Failure => {
  if (!isJsonObject(message)) return notAnObject
  const { jsonrpc, method, id } = message
  if (jsonrpc !== '2.0') return invalidRequest('jsonrpc must be "2.0"')
  if (typeof method !== 'string') return invalidRequest('method must be a string')
  if (strict && typeof id !== 'number') return invalidRequest(`id must be a number, not ${describeType(id)}`)
  if ((id ?? null) !== null && typeof id !== 'number' && typeof id !== 'string')
    return invalidRequest(`id must be a number, a string or null, not ${describeType(id)}`)
  const params = strict ? message['params'] : (message['params'] ?? [])
  if (Array.isArray(params)) return { method, params }
  if (!offers(method)) return refuseUnknownMethod(method)
  const issue = `params must be an array, not ${describeType(params)}`
  return strict ? invalidRequest(issue) : refuse('params', { message: issue })
}

const invalidRequest = (reason: string): Failure => refuse('invalid', { message: `invalid request: ${reason}` })

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
