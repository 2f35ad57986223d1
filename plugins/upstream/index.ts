import { definePlugin, isFailure, refuse, wholeOf } from '../../src/plugin.ts'
import type { Call, Failure, Method, Reply, Request, Result, Results } from '../../src/plugin.ts'
import { neverLower } from './height.ts'
import { judge } from './judge.ts'
import { askForLogs } from './lists.ts'
import { watchPulse } from './pulse.ts'
import { suggestRange } from './range.ts'
import type { Limits } from './split.ts'

/** Asks the node that `failover` chose, and holds its answer to the contract. */
export default definePlugin({
  name: 'upstream',
  summary: 'Asks one node over HTTP, with a deadline and a cap on bytes, and checks what it answers.',
  options: {
    type: 'object',
    properties: {
      timeout: { type: 'string', format: 'duration', default: '10s', description: 'Longest wait for an answer.' },
      maxBytes: { type: 'string', format: 'size', default: '32MiB', description: 'Longest answer of a node.' },
      silence: {
        type: 'string',
        format: 'duration',
        default: '2s',
        description: 'After so long without a byte the node is asked eth_blockNumber, to tell a slow query from a hung node.',
      },
      maxPieces: {
        type: 'integer',
        minimum: 1,
        default: 16,
        description: 'Most pieces of one query for logs, where its upstream has maxRange or maxParams; 4 are asked at once.',
      },
    },
  },
  check(options, report) {
    for (const name of ['timeout', 'maxBytes', 'silence'] as const) {
      if (options[name] === 0) report([name], `${name} must be more than nothing`)
    }
  },
  reads: ['request', 'target'],
  terminal: true,
  create({ timeout, maxBytes, silence, maxPieces }, services) {
    const { agents, clock, heads, methods, results } = services
    const isAlive = watchPulse(services)
    const narrow = new Set<string>()
    const askOnce =
      (call: Call<'request' | 'target'>, method: Method | undefined) =>
      async (request: Request, { timeout, maxBytes, signal }: Limits): Promise<Reply> => {
        const { target } = call.notes
        const reply = await agents.ask(target, request, {
          timeout,
          maxBytes,
          signal,
          silence: { after: silence, alive: () => isAlive(target, call) },
          resend: method?.resend ?? false,
        })
        if (isFailure(reply)) return judge(reply, request, methods)
        if (request.method !== call.notes.request.method) return reply // a question about the question
        return method?.height === true ? neverLower(reply, target.name, heads) : checkResult(reply, method, request, results)
      }
    return call => {
      const { request, target } = call.notes
      const method = methods.get(request.method)
      const longest = Math.min(timeout, method?.maxTime ?? timeout)
      const limits = { timeout: longest, maxBytes, signal: call.signal ?? call.origin.signal }
      const ask = askOnce(call, method)
      if (method?.split !== true) return ask(request, limits)
      const query = { request, target, limits, maxResults: method.maxResults ?? Infinity, ask }
      return askForLogs(query, { clock, results, heads, maxPieces }, narrow)
    }
  },
})

const checkResult = (result: Result, method: Method | undefined, request: Request, results: Results): Reply | Promise<Reply> => {
  const most = method?.maxResults
  if (most !== undefined && result.count !== undefined && result.count > most) return tooMany(result, most, request, results)
  if (most !== undefined && result.count === undefined) return { ...result, odd: true }
  return method?.word === true ? padWord(result) : result
}

const tooMany = async ({ result, source, upstream }: Result, most: number, request: Request, results: Results): Promise<Failure> => {
  const message = `query returned more than ${most} results`
  const data = suggestRange(await results.whole(result), most, request.params[0])
  return refuse('tooMany', { message, data, source, ...(upstream !== undefined && { upstream }) })
}

/** Contract 4.2: the value comes as 32 bytes; some nodes leave out leading zeros. */
const padWord = (result: Result): Result => {
  const text = wholeOf(result.result).toString('latin1')
  if (!/^"0x[0-9a-fA-F]{0,64}"$/.test(text)) return { ...result, odd: true }
  if (text.length === 68) return result
  return { ...result, result: Buffer.from(`"0x${text.slice(3, -1).padStart(64, '0')}"`, 'latin1') }
}
