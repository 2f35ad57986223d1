import { definePlugin, refuse, withNotes } from '../src/plugin.ts'
import type { Failure, Json, Request } from '../src/plugin.ts'

type Envelope = { readonly [name: string]: Json | undefined }

/** What contract 2.2 calls the request envelope; by default as JSON-RPC 2.0 and real clients have it. */
export default definePlugin({
  name: 'envelope',
  summary: 'Checks the shape of a request: jsonrpc, method, params, id.',
  options: {
    type: 'object',
    properties: {
      strict: {
        type: 'boolean',
        default: false,
        description: 'Insist on a numeric id and a params array in each request; viem, cast, geth and web3 then fail.',
      },
    },
  },
  writes: ['request'],
  create({ strict }) {
    const checkMore = strict ? checkStrictly : checkId
    return (call, next) => {
      const read = readRequest(call.message, checkMore)
      return 'error' in read ? Promise.resolve(read) : next(withNotes(call, { request: read }))
    }
  },
})

const readRequest = (message: Json, checkMore: (message: Envelope) => Failure | undefined): Request | Failure => {
  if (!isObject(message)) return invalid('it must be an object')
  const wrong = checkMembers(message) ?? checkMore(message)
  if (wrong !== undefined) return wrong
  const method = message['method'] as string // checkMembers saw to it
  const params = message['params'] ?? []
  return Array.isArray(params) ? { method, params } : refuse('params', { message: `params must be an array, not ${kindOf(params)}` })
}

const checkMembers = (message: Envelope): Failure | undefined => {
  if (message['jsonrpc'] !== '2.0') return invalid('jsonrpc must be "2.0"')
  if (typeof message['method'] !== 'string') return invalid('method must be a string')
  return undefined
}

const checkId = ({ id }: Envelope): Failure | undefined =>
  id === undefined || id === null || typeof id === 'number' || typeof id === 'string'
    ? undefined
    : invalid(`id must be a number, a string or null, not ${kindOf(id)}`)

const checkStrictly = ({ id, params }: Envelope): Failure | undefined => {
  if (typeof id !== 'number') return invalid(`id must be a number, not ${kindOf(id)}`)
  if (!Array.isArray(params)) return invalid(`params must be an array, not ${kindOf(params)}`)
  return undefined
}

const invalid = (what: string): Failure => refuse('invalid', { message: `invalid request: ${what}` })

const isObject = (value: Json): value is { readonly [name: string]: Json } =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const kindOf = (value: Json | undefined): string =>
  value === undefined
    ? 'absent'
    : value === null
      ? 'null'
      : Array.isArray(value)
        ? 'an array'
        : typeof value === 'object'
          ? 'an object'
          : `a ${typeof value}`
