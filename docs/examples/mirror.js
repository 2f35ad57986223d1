// configs/mirror.js
import { isDeepStrictEqual } from 'node:util'
import { Cancellation, definePlugin, isFailure, toBuffer } from 'tollgate/plugin'

const mirroredCalls = {
  name: 'tollgate_mirrored_calls_total',
  help: 'Calls that were sent to a second node too, by whether its answer was the same.',
  labels: ['answer'],
}

export default definePlugin({
  name: 'mirror',
  apiVersion: 1,
  summary: 'Sends a share of the calls to a second node too, and counts the answers that differ.',
  options: {
    type: 'object',
    properties: {
      url: { type: 'string', format: 'url', description: 'URL of the second node.', examples: ['http://10.0.0.7:8545'] },
      percent: { type: 'number', exclusiveMinimum: 0, maximum: 100, default: 1, description: 'Share of the calls, in percent.' },
      timeout: { type: 'string', format: 'duration', default: '10s', description: 'Maximum time to wait for the second node.' },
      maxBytes: { type: 'string', format: 'size', default: '64KiB', description: 'Longer answers are not compared.' },
    },
    required: ['url'],
  },
  reads: ['request'],
  create({ url, percent, timeout: timeoutMs, maxBytes }, { log, methods, metrics, upstreamClient }) {
    const counters = Object.fromEntries(['same', 'different', 'failed'].map(answer => [answer, metrics.counter(mirroredCalls, { answer })]))
    // A second node that is slow takes at most so many calls, and none that callers wait for.
    const target = { name: 'mirror', url, source: 'node', concurrency: 8 }
    const signal = new Cancellation()
    let due = 0
    const isDue = () => {
      due += percent
      if (due < 100) return false
      due -= 100
      return true
    }
    const compare = async (request, reply) => {
      const mirrored = await upstreamClient.request(target, request, { timeoutMs, maxBytes, signal })
      const answer = isFailure(mirrored) && mirrored.kind !== 'node' ? 'failed' : isSame(reply, mirrored) ? 'same' : 'different'
      if (!signal.aborted) counters[answer].add()
      if (answer === 'different') log.warn({ method: request.method }, 'the mirror answered something else')
    }
    return {
      async handle(call, next) {
        const reply = await next(call)
        const { request } = call.context
        // A transaction must not be sent twice; errors of the gateway itself are no answer of a node.
        const isComparable = methods.get(request.method)?.idempotent === true && reply.source === 'node'
        const isShort = isFailure(reply) || reply.result.byteLength <= maxBytes
        if (isComparable && isShort && isDue()) compare(request, reply).catch(err => log.error({ err }, 'the mirror failed'))
        return reply
      },
      async stop() {
        signal.abort()
      },
    }
  },
})

/** Nodes write the members of objects in orders of their own. Of two errors the codes are compared. */
const isSame = (reply, mirrored) =>
  isFailure(reply) || isFailure(mirrored)
    ? reply.error?.code === mirrored.error?.code
    : isDeepStrictEqual(parse(reply.result), parse(mirrored.result))

const parse = result => JSON.parse(toBuffer(result).toString())
