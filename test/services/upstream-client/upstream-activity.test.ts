import t from '../../support/tap.ts'
import { probeUpstream } from '../../../src/services/upstream-client/upstream-activity.ts'
import { Cancellation } from '../../../src/plugin/call.ts'
import { refuse } from '../../../src/plugin/reply.ts'
import type { Failure, Reply } from '../../../src/plugin/reply.ts'
import { shippedMethods as methods } from '../method-table/shipped-table.ts'
import { fakeResult, fakeTarget } from '../../support/fakes.ts'

const nodeErrorReply = (code: number, message: string): Failure => ({
  kind: 'node',
  error: { code, message },
  fault: 'caller',
  status: 200,
  source: 'node',
  upstream: 'own',
})
const unavailable = (over: Partial<Failure>): Failure => ({ ...refuse('unavailable', { source: 'node' }), ...over })

for (const [what, reply, result] of [
  ['returns its height', fakeResult('0x10'), 'healthy'],
  ['is rate limiting over HTTP', unavailable({ category: 'rateLimited', cause: 'HTTP 429' }), 'healthy'],
  ['is rate limiting in JSON-RPC', nodeErrorReply(-32005, 'daily request count exceeded, request rate limited'), 'healthy'],
  [
    'is rate limiting in JSON-RPC with HTTP 503',
    unavailable({ cause: 'HTTP 503', nodeError: { code: 429, message: 'Too Many Requests' } }),
    'healthy',
  ],
  ['returns an error', nodeErrorReply(-32603, 'internal error'), 'erroring'],
  ['answers while the gateway has no memory for the response', refuse('unavailable', { source: 'gateway', fault: 'gateway' }), 'erroring'],
  ['does not answer', refuse('timeout', { source: 'node', fault: 'upstream' }), 'unreachable'],
  ['is down behind a proxy', unavailable({ cause: 'HTTP 502' }), 'unreachable'],
  [
    'is down behind a proxy that answers in JSON-RPC',
    unavailable({ cause: 'HTTP 503', nodeError: { code: -32011, message: 'no backend is currently healthy' } }),
    'unreachable',
  ],
] as const satisfies readonly (readonly [string, Reply, string])[]) {
  t.test(`the probe of a node that ${what} is ${result}`, async t => {
    t.equal(
      await probeUpstream(
        fakeTarget,
        { methods, upstreamClient: { request: async () => reply, disconnects: () => 0 } },
        { timeoutMs: 1000, signal: new Cancellation() },
      ),
      result,
    )
  })
}
