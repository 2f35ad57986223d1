import { copyReply, definePlugin, isFailure, refuse, toBuffer } from '../../src/plugin/plugin.ts'
import type { Call, Failure, Method, Reply, Request, Result, Results } from '../../src/plugin/plugin.ts'
import { withReportedHeight } from './reported-height.ts'
import { normalizeError } from './normalize-error.ts'
import { requestLogs } from './split-logs/param-limit.ts'
import { createResponsivenessProbe } from './responsiveness.ts'
import { suggestRange } from './split-logs/suggest-range.ts'
import type { RequestLimits } from './split-logs/index.ts'

/** Asks the node that `failover` chose, and holds its answer to the contract. */
export default definePlugin({
  name: 'upstream',
  summary: 'Asks one node over HTTP, with a deadline and a cap on bytes, and checks what it answers.',
  options: {
    type: 'object',
    properties: {
      timeout: { type: 'string', format: 'duration', default: '10s', description: 'Longest wait for an answer.' },
      maxBytes: { type: 'string', format: 'size', default: '32MiB', description: 'Longest answer of a node.' },
      probeAfter: {
        type: 'string',
        format: 'duration',
        default: '2s',
        description:
          'When a response is silent for this long, the node is probed with eth_blockNumber, to tell a slow query from a hung node.',
      },
      maxChunks: {
        type: 'integer',
        minimum: 1,
        default: 16,
        description:
          'Maximum number of chunks of one eth_getLogs, for an upstream with maxRange or maxParams; 4 are requested in parallel.',
      },
    },
  },
  check(options, report) {
    for (const name of ['timeout', 'maxBytes', 'probeAfter'] as const) {
      if (options[name] === 0) report([name], `${name} must be greater than 0`)
    }
  },
  reads: ['request', 'target'],
  terminal: true,
  create({ timeout, maxBytes, probeAfter, maxChunks }, services) {
    const { upstreamClient, clock, heads, methods, results } = services
    const isResponsive = createResponsivenessProbe(services)
    const paramLimited = new Set<string>()
    const requestOnce =
      (call: Call<'request' | 'target'>, method: Method | undefined) =>
      async (request: Request, { timeoutMs, maxBytes, signal }: RequestLimits): Promise<Reply> => {
        const { target } = call.context
        const reply = await upstreamClient.request(target, request, {
          timeoutMs,
          maxBytes,
          signal,
          livenessProbe: { afterMs: probeAfter, isAlive: () => isResponsive(target, call) },
          idempotent: method?.idempotent ?? false,
        })
        if (isFailure(reply)) return normalizeError(reply, request, methods)
        if (request.method !== call.context.request.method) return reply // a question about the question
        return method?.result === 'blockNumber'
          ? withReportedHeight(reply, target.name, heads)
          : checkResult(reply, method, request, results)
      }
    return call => {
      const { request, target } = call.context
      const method = methods.get(request.method)
      const timeoutMs = Math.min(timeout, method?.maxTime ?? timeout)
      const limits = { timeoutMs, maxBytes, signal: call.signal ?? call.origin.signal }
      const sendRequest = requestOnce(call, method)
      if (method?.splittable !== true) return sendRequest(request, limits)
      const query = { request, target, limits, maxResults: method.maxResults ?? Infinity, sendRequest }
      return requestLogs(query, { clock, results, heads, maxChunks }, paramLimited)
    }
  },
})

const checkResult = (result: Result, method: Method | undefined, request: Request, results: Results): Reply | Promise<Reply> => {
  const maxResults = method?.maxResults
  if (maxResults !== undefined && result.count !== undefined && result.count > maxResults)
    return tooManyResults(result, maxResults, request, results)
  if (maxResults !== undefined && result.count === undefined) return copyReply(result, { unexpectedType: true })
  return method?.result === 'word' ? padStorageWord(result) : result
}

const tooManyResults = async (
  { result, source, upstream }: Result,
  maxResults: number,
  request: Request,
  results: Results,
): Promise<Failure> => {
  const message = `query returned more than ${maxResults} results`
  const data = suggestRange(await results.toContiguous(result), maxResults, request.params[0])
  return refuse('tooMany', { message, data, source, ...(upstream !== undefined && { upstream }) })
}

/** Contract 4.2: the value comes as 32 bytes; some nodes leave out leading zeros. */
const padStorageWord = (result: Result): Result => {
  const text = toBuffer(result.result).toString('latin1')
  if (!/^"0x[0-9a-fA-F]{0,64}"$/.test(text)) return copyReply(result, { unexpectedType: true })
  if (text.length === 68) return result
  return copyReply(result, { result: Buffer.from(`"0x${text.slice(3, -1).padStart(64, '0')}"`, 'latin1') })
}
