import type { Attributes, Span, SpanStatusCode } from '@opentelemetry/api'
import { isFailure } from '../plugin/reply.ts'
import type { Reply } from '../plugin/reply.ts'

/** What spans call a method that the network does not offer, by the semantic conventions for RPC. */
export const otherMethod = '_OTHER'

/** By the semantic conventions for JSON-RPC; until version 1.37 of them, `rpc.system.name` was `rpc.system`, which some backends expect. */
export const rpcAttributes = (method: string): Attributes => ({
  'rpc.system.name': 'jsonrpc',
  'rpc.system': 'jsonrpc',
  'rpc.method': method,
  'jsonrpc.protocol.version': '2.0',
})

/** Messages and data of errors are not recorded: nodes and callers write them. */
export const recordReply = (span: Span, reply: Reply): void => {
  const { source, upstream, cache, credits } = reply
  span.setAttribute('tollgate.source', source)
  if (upstream !== undefined) span.setAttribute('tollgate.upstream', upstream)
  if (cache !== undefined) span.setAttribute('tollgate.cache', cache)
  if (credits !== undefined) span.setAttribute('tollgate.credits', credits)
  if (!isFailure(reply)) return
  const { error, kind, fault, cause } = reply
  span.setAttributes({ 'rpc.response.status_code': String(error.code), 'error.type': kind, 'tollgate.fault': fault })
  span.setStatus({ code: errorStatus, ...(cause !== undefined && { message: cause }) })
}

export const recordBug = (span: Span): void => {
  span.setAttribute('error.type', 'internal')
  span.setStatus({ code: errorStatus })
}

/** SpanStatusCode.ERROR: the API is not loaded for one number. */
const errorStatus: SpanStatusCode.ERROR = 2
