import t from 'tap'
import { feelPulse } from '../src/pulse.ts'
import { Leave } from '../src/leave.ts'
import { refuse } from '../src/reply.ts'
import type { Failure, Reply } from '../src/reply.ts'
import { shipped as methods } from './services/methods/shipped.ts'
import { result, target } from './support/fakes.ts'

const says = (code: number, message: string): Failure => ({
  kind: 'node',
  error: { code, message },
  fault: 'caller',
  status: 200,
  source: 'node',
  upstream: 'own',
})
const noAnswer = (over: Partial<Failure>): Failure => ({ ...refuse('unavailable', { source: 'node' }), ...over })

for (const [what, reply, pulse] of [
  ['tells its height', result('0x10'), 'good'],
  ['limits us over HTTP', noAnswer({ meaning: 'limited', cause: 'HTTP 429' }), 'good'],
  ['limits us in JSON-RPC', says(-32005, 'daily request count exceeded, request rate limited'), 'good'],
  ['limits us in JSON-RPC with HTTP 503', noAnswer({ cause: 'HTTP 503', said: { code: 429, message: 'Too Many Requests' } }), 'good'],
  ['answers with an error of its own', says(-32603, 'internal error'), 'ill'],
  ['answers when we have no room for it', refuse('unavailable', { source: 'gateway', fault: 'gateway' }), 'ill'],
  ['answers nothing', refuse('timeout', { source: 'node', fault: 'upstream' }), 'none'],
  ['lets a proxy say that it is gone', noAnswer({ cause: 'HTTP 502' }), 'none'],
  [
    'lets a proxy say so in JSON-RPC',
    noAnswer({ cause: 'HTTP 503', said: { code: -32011, message: 'no backend is currently healthy' } }),
    'none',
  ],
] as const satisfies readonly (readonly [string, Reply, string])[]) {
  t.test(`the pulse of a node that ${what} is ${pulse}`, async t => {
    t.equal(
      await feelPulse(target, { methods, agents: { ask: async () => reply, losses: () => 0 } }, { timeout: 1000, signal: new Leave() }),
      pulse,
    )
  })
}
