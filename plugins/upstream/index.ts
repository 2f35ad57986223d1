import {
  activityOf,
  directStage,
  formatCount,
  formatDuration,
  formatSize,
  resultMemoryOf,
  thenMaybe,
  parseJsonHexQuantity,
  refuseUnknownMethod,
} from '../../src/plugin/internal.ts'
import type { DirectHandler, MaybePromise, Heads } from '../../src/plugin/internal.ts'
import { copyReply, definePlugin, isFailure, refuseWrongResult, toBuffer, toHexQuantity } from '../../src/plugin/plugin.ts'
import type { Call, CallContext, Explanation, Method, Reply, Request, Result, Services, Target } from '../../src/plugin/plugin.ts'
import { checkResult, expectLogs } from './check-result.ts'
import { normalizeError } from './normalize-error.ts'
import { withinRate } from './node-query.ts'
import type { RequestLimits } from './node-query.ts'
import { createQuerySender } from './query-plan.ts'
import { reportedBlockOf } from './reported-block.ts'

/** Sends the request to the node that `failover` chose, and checks and normalizes the response. */
export default definePlugin({
  name: 'upstream',
  summary: 'Sends the request to one node, with limits on time and bytes, and checks the response.',
  options: {
    type: 'object',
    properties: {
      timeout: {
        type: 'string',
        format: 'duration',
        minimum: '1ms',
        usual: { min: '100ms', max: '30m' },
        default: '10s',
        description: 'Maximum time to wait for a response.',
      },
      maxBytes: {
        type: 'string',
        format: 'size',
        minimum: '1B',
        usual: { min: '64KiB', max: '1GiB' },
        default: '32MiB',
        description: 'Maximum size of a response.',
      },
      probeAfter: {
        type: 'string',
        format: 'auto-duration',
        minimum: '1ms',
        usual: { min: '10ms', max: '30m' },
        default: 'auto',
        description:
          'When a response is silent for this long, the node is probed with eth_blockNumber, to tell a slow query from a hung node. auto: learned from the latency of the node.',
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
  reads: ['request', 'target'],
  terminal: true,
  create({ timeout, maxBytes, probeAfter, maxChunks }, services) {
    const { methods } = services
    const sendQuery = createQuerySender(services, maxChunks)
    const requestOnce = createRequester(probeAfter, services)
    const handle: DirectHandler<'request' | 'target'> = call => {
      const { request, target } = call.context
      const method = methods.get(request.method)
      if (method?.stateful === true) return refuseUnknownMethod(request.method)
      const timeoutMs = Math.min(timeout, method?.maxTime ?? timeout) + (method?.waitMs(request.params) ?? 0)
      const limits = { timeoutMs, maxBytes, signal: call.signal ?? call.origin.signal }
      const sendOnce = requestOnce(call, method)
      const sendRequest = target.rate === undefined ? sendOnce : withinRate(sendOnce, target, services)
      const reply = sendQuery({ request, target, limits, sendRequest }, method)
      return method?.reports !== undefined ? reply.then(result => reportResult(result, call.context, method, services)) : reply
    }
    const offers = (method: string) => methods.get(method)?.stateful !== true
    return directStage({ offers, handle, explain: ({ method }) => explainLimits(methods.get(method), { timeout, maxBytes, maxChunks }) })
  },
})

/** Sends one request of a call to its node, and checks the answer. */
const createRequester = (probeAfter: number | 'auto', services: Services) => {
  const { upstreamClient, heads, log, methods, results } = services
  return (call: Call<'request' | 'target'>, method: Method | undefined) =>
    async (request: Request, { timeoutMs, maxBytes, signal }: RequestLimits): Promise<Reply> => {
      const { target } = call.context
      const activity = activityOf(target)
      // A query may need blocks too.
      const requested = request.method === call.context.request.method ? method : methods.get(request.method)
      const logs = requested?.result === 'logs' ? expectLogs(request, requested) : undefined
      const afterMs = probeAfter === 'auto' ? activity.probeAfterMs(method?.class ?? 'other') : probeAfter
      const waitMs = requested?.waitMs(request.params) ?? 0
      const reply = await upstreamClient.request(target, request, {
        timeoutMs,
        maxBytes,
        signal,
        livenessProbe: { afterMs: waitMs + afterMs, isAlive: () => activity.isAlive(services), recordBytes: activity.recordBytes },
        idempotent: method?.idempotent ?? false,
        waits: waitMs > 0,
        observer: logs?.search,
        origin: call.origin,
        traceparent: services.traceparent(call),
      })
      if (!isFailure(reply) || reply.kind === 'node') activity.recordResponse()
      if (isFailure(reply)) return normalizeError(reply, request, methods)
      if (requested === undefined) return reply
      const checking =
        requested.result === 'blockNumber'
          ? withReportedHeight(reply, target, heads)
          : checkResult(reply, { method: requested, request, logs }, results)
      const checked = checking instanceof Promise ? await checking : checking
      if (isFailure(checked)) resultMemoryOf(reply)?.release()
      if (isFailure(checked) && checked.kind === 'unavailable')
        log.warn({ upstream: target.name, method: request.method, cause: checked.cause }, 'upstream returned a wrong result')
      return checked
    }
}

const explainLimits = (
  method: Method | undefined,
  { timeout, maxBytes, maxChunks }: { readonly timeout: number; readonly maxBytes: number; readonly maxChunks: number },
): Explanation => {
  if (method?.stateful === true) return { text: ['the method is never sent to a node, and no plugin above answers it'], ends: 'refused' }
  const timeoutMs = Math.min(timeout, method?.maxTime ?? timeout)
  const wait = method?.maxWait === undefined ? '' : `, after a wait of at most ${formatDuration(method.maxWait)}`
  const maxResults = method?.maxResults === undefined ? '' : ` and ${formatCount(method.maxResults)} results`
  const blocks = method?.maxBlocks === undefined ? [] : [`queries over at most ${formatCount(method.maxBlocks)} blocks`]
  const chunks = `split into at most ${maxChunks} chunks for a node with maxRange or maxParams`
  return {
    text: [
      `at most ${formatDuration(timeoutMs)} and ${formatSize(maxBytes)}${maxResults}${wait}`,
      ...blocks,
      ...(method?.splittable === true ? [chunks] : []),
    ],
  }
}

/** Before the answer is given to the caller, every worker has the block. */
const reportResult = (
  reply: Reply,
  { request, target }: Pick<CallContext, 'request' | 'target'>,
  method: Method,
  { heads, results }: Pick<Services, 'heads' | 'results'>,
): MaybePromise<Reply> => {
  if (isFailure(reply)) return reply
  const block = reportedBlockOf(reply, request, method, results)
  return block === undefined ? reply : thenMaybe(heads.reportHeight(heads.reporterOf(target), block.number, block.hash), () => reply)
}

/** The height that the node returned, or the greater height that callers have been given already. */
const withReportedHeight = (result: Result, target: Target, heads: Heads): MaybePromise<Reply> => {
  const height = parseJsonHexQuantity(toBuffer(result.result).toString('latin1'))
  if (height === undefined) return refuseWrongResult(result, 'the height is no number')
  return thenMaybe(heads.reportHeight(heads.reporterOf(target), height), reported =>
    reported === height ? result : copyReply(result, { result: Buffer.from(`"${toHexQuantity(reported)}"`, 'latin1') }),
  )
}
