import {
  Cancellation,
  copyReply,
  definePlugin,
  getOrCreate,
  isFailure,
  parseJsonHexQuantity,
  probeUpstream,
  refuseTooManyResults,
  singleFlight,
  thenMaybe,
  toBuffer,
  toHexQuantity,
} from '../../src/plugin/plugin.ts'
import type {
  Call,
  CallContext,
  Failure,
  Heads,
  MaybePromise,
  Method,
  Reply,
  Request,
  Result,
  Results,
  Services,
  Target,
} from '../../src/plugin/plugin.ts'
import { normalizeError } from './normalize-error.ts'
import { reportedBlockOf } from './reported-block.ts'
import { requestLogs } from './split-logs/index.ts'
import type { RequestLimits } from './split-logs/index.ts'
import { suggestRange } from './split-logs/suggest-range.ts'

/** Sends the request to the node that `failover` chose, and checks and normalizes the response. */
export default definePlugin({
  name: 'upstream',
  summary: 'Sends the request to one node over HTTP, with limits on time and bytes, and checks the response.',
  options: {
    type: 'object',
    properties: {
      timeout: { type: 'string', format: 'duration', default: '10s', description: 'Maximum time to wait for a response.' },
      maxBytes: { type: 'string', format: 'size', default: '32MiB', description: 'Maximum size of a response.' },
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
    const isResponsive = createLivenessProbe(services)
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
        const isSubrequest = request.method !== call.context.request.method // of requestLogs()
        if (isSubrequest) return reply
        return method?.result === 'blockNumber'
          ? withReportedHeight(reply, target.name, heads)
          : checkResult(reply, method, request, results)
      }
    /** Before the answer is given to the caller, every worker has the block. */
    const report = (
      reply: Reply,
      { request, target }: Pick<CallContext, 'request' | 'target'>,
      method: Method | undefined,
    ): MaybePromise<Reply> => {
      if (method?.reports === undefined || isFailure(reply)) return reply
      const block = reportedBlockOf(reply, request, method, results)
      return block === undefined ? reply : thenMaybe(heads.reportHeight(target.name, block), () => reply)
    }
    return async call => {
      const { request, target } = call.context
      const method = methods.get(request.method)
      const timeoutMs = Math.min(timeout, method?.maxTime ?? timeout)
      const limits = { timeoutMs, maxBytes, signal: call.signal ?? call.origin.signal }
      const sendRequest = requestOnce(call, method)
      if (method?.splittable !== true) return report(await sendRequest(request, limits), call.context, method)
      const query = { request, target, limits, maxResults: method.maxResults ?? Infinity, sendRequest }
      return report(await requestLogs(query, { clock, results, heads, maxChunks }, paramLimited), call.context, method)
    }
  },
})

const livenessProbeTimeoutMs = 1_000

/** Is the node alive? One probe at a time per node, however many calls wait for it. */
const createLivenessProbe = (services: Services) => {
  const probes = new Map<string, (call: Call) => Promise<boolean>>()
  const newProbe = (target: Target) =>
    singleFlight(async (call: Call) => {
      const health = await probeUpstream(target, services, { timeoutMs: livenessProbeTimeoutMs, signal: new Cancellation() })
      if (health === 'unreachable') services.log.warn({ upstream: target.name, requestId: call.origin.requestId }, 'upstream unresponsive')
      return health !== 'unreachable'
    })
  return (target: Target, call: Call): Promise<boolean> => getOrCreate(probes, target.name, () => newProbe(target))(call)
}

/** The height that the node returned, or the greater height that callers have been given already. */
const withReportedHeight = (result: Result, upstream: string, heads: Heads): Result | Promise<Result> => {
  const height = parseJsonHexQuantity(toBuffer(result.result).toString('latin1'))
  if (height === undefined) return copyReply(result, { unexpectedType: true })
  return thenMaybe(heads.reportHeight(upstream, height), reported =>
    reported === height ? result : copyReply(result, { result: Buffer.from(`"${toHexQuantity(reported)}"`, 'latin1') }),
  )
}

const checkResult = (result: Result, method: Method | undefined, request: Request, results: Results): Reply | Promise<Reply> => {
  const maxResults = method?.maxResults
  if (maxResults !== undefined && result.count === undefined) return copyReply(result, { unexpectedType: true })
  if (maxResults !== undefined && result.count !== undefined && result.count > maxResults)
    return tooManyResults(result, maxResults, request, results)
  return method?.result === 'word' ? padStorageWord(result) : result
}

const tooManyResults = async (
  { result, source, upstream }: Result,
  maxResults: number,
  request: Request,
  results: Results,
): Promise<Failure> => {
  const data = suggestRange(await results.toContiguous(result), maxResults, request.params[0])
  return refuseTooManyResults(maxResults, { data, source, upstream })
}

/** Contract 4.2: the value is 32 bytes long; some nodes omit leading zeros. */
const padStorageWord = (result: Result): Result => {
  const text = toBuffer(result.result).toString('latin1')
  if (!/^"0x[0-9a-fA-F]{0,64}"$/.test(text)) return copyReply(result, { unexpectedType: true })
  if (text.length === '"0x"'.length + 64) return result
  return copyReply(result, { result: Buffer.from(`"0x${text.slice(3, -1).padStart(64, '0')}"`, 'latin1') })
}
