import t from 'tap'
import { probeUpstream } from '../../../src/services/upstream-client/probe-upstream.ts'
import { Cancellation } from '../../../src/plugin/cancellation.ts'
import { refuse } from '../../../src/plugin/reply.ts'
import type { Failure, Reply } from '../../../src/plugin/reply.ts'
import { shippedMethods as methods } from '../method-table/shipped-table.ts'
import { fakeResult, target } from '../../support/fakes.ts'

const nodeErrorReply = (code: number, message: string): Failure => ({
  kind: 'node',
  error: { code, message },
  fault: 'caller',
  status: 200,
  source: 'node',
  upstream: 'own',
})
const noAnswer = (over: Partial<Failure>): Failure => ({ ...refuse('unavailable', { source: 'node' }), ...over })

for (const [what, reply, pulse] of [
  ['tells its height', fakeResult('0x10'), 'good'],
  ['limits us over HTTP', noAnswer({ category: 'rateLimited', cause: 'HTTP 429' }), 'good'],
  ['limits us in JSON-RPC', nodeErrorReply(-32005, 'daily request count exceeded, request rate limited'), 'good'],
  ['limits us in JSON-RPC with HTTP 503', noAnswer({ cause: 'HTTP 503', nodeError: { code: 429, message: 'Too Many Requests' } }), 'good'],
  ['answers with an error of its own', nodeErrorReply(-32603, 'internal error'), 'ill'],
  ['answers when we have no room for it', refuse('unavailable', { source: 'gateway', fault: 'gateway' }), 'ill'],
  ['answers nothing', refuse('timeout', { source: 'node', fault: 'upstream' }), 'none'],
  ['lets a proxy say that it is gone', noAnswer({ cause: 'HTTP 502' }), 'none'],
  [
    'lets a proxy say so in JSON-RPC',
    noAnswer({ cause: 'HTTP 503', nodeError: { code: -32011, message: 'no backend is currently healthy' } }),
    'none',
  ],
] as const satisfies readonly (readonly [string, Reply, string])[]) {
  t.test(`the pulse of a node that ${what} is ${pulse}`, async t => {
    t.equal(
      await probeUpstream(
        target,
        { methods, upstreamClient: { request: async () => reply, disconnects: () => 0 } },
        { timeoutMs: 1000, signal: new Cancellation() },
      ),
      pulse,
    )
  })
}
