import { readFileSync } from 'node:fs'
import { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { Duplex } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import t from '../support/tap.ts'
import type { Failure, Result } from '../../src/plugin/reply.ts'
import { refuse } from '../../src/plugin/reply.ts'
import { corsHeaders, openHttpDate, rawHeadersOf } from '../../src/server/response-headers.ts'
import { maxSentBytesPerTurn, sendChunks } from '../../src/server/stream-response.ts'
import { TestClock } from '../support/fakes.ts'
import { rootDir } from '../tools/source-files.ts'

t.test('the Date header is formatted anew when a second has passed', t => {
  const clock = new TestClock(Date.UTC(2026, 0, 15, 12))
  const read = openHttpDate(clock)
  t.equal(read(), 'Thu, 15 Jan 2026 12:00:00 GMT')
  clock.advance(999)
  t.equal(read(), 'Thu, 15 Jan 2026 12:00:00 GMT')
  clock.advance(1)
  t.equal(read(), 'Thu, 15 Jan 2026 12:00:01 GMT')
  t.end()
})

/** What browsers show to every page, and what is for them, proxies and other programs. */
const standardHeaders = [
  'Access-Control-Allow-Origin',
  'Access-Control-Expose-Headers',
  'Allow',
  'Cache-Control',
  'Connection',
  'Content-Encoding',
  'Content-Length',
  'Content-Type',
  'Upgrade',
  'Vary',
  'WWW-Authenticate',
]

t.test('pages of other origins may read every header of a response that is not a standard one, and Retry-After', t => {
  const quota = { limit: 9, remaining: 5, resetsInMs: 1_000 }
  const rateQuota = { ...quota, name: 'calls', windowMs: 1_000 } as const
  const metadata = { upstream: 'own', cache: 'miss', credits: 4, quota, rateQuota } as const
  const result: Result = { ...metadata, source: 'node', result: Buffer.from('1'), verified: 'proof' }
  const failure: Failure = { ...refuse('tooMany', { retryAfter: 1 }), ...metadata }
  const namesOf = (status: number, reply: Result | Failure, isCompressed: boolean): readonly string[] => {
    const response = { id: '1', status, body: { chunks: ['{}'], byteLength: 2 }, retryAfter: 1, replies: [reply] }
    return rawHeadersOf(response, { origin: { requestId: 'r' }, closesConnection: true, isCompressed }).filter((_, i) => i % 2 === 0)
  }
  const responses = [namesOf(200, result, false), ...[401, 405, 426, 429].map(status => namesOf(status, failure, true))]
  const written = new Set(responses.flat())
  t.same(
    standardHeaders.filter(name => !written.has(name)),
    [],
  )
  const exposed = corsHeaders[corsHeaders.indexOf('Access-Control-Expose-Headers') + 1]?.split(', ') ?? []
  t.same(exposed.toSorted(), [...written].filter(name => !standardHeaders.includes(name)).sort())
  const page = readFileSync(join(rootDir, 'src/portal/page/developer/try-call.ts'), 'utf8')
  const shown = Array.from(page.matchAll(/'(X-[\w-]+)'/g), ([, name = '']) => name)
  t.ok(shown.length > 3)
  t.same(
    shown.filter(name => !exposed.includes(name)),
    [],
    'those that the page Try it shows',
  )
  t.end()
})

/** A response to a caller that reads all at once, and what has been sent to it. */
const openResponse = () => {
  const sent: Buffer[] = []
  const stream = new Duplex({
    read: () => undefined,
    write(chunk: Buffer, _encoding, done) {
      sent.push(chunk)
      done()
    },
  })
  const socket = stream as Socket // all of it that a response uses
  const res = new ServerResponse(new IncomingMessage(socket))
  res.assignSocket(socket)
  return { res, stream, sent }
}

const lengthOf = (chunks: readonly Uint8Array[]): number => chunks.reduce((sum, { length }) => sum + length, 0)

t.test('a long response is sent in parts, one in each turn of the event loop', async t => {
  const chunks = [
    '{',
    Buffer.alloc(5 * maxSentBytesPerTurn + 7, 'a'),
    'b'.repeat(maxSentBytesPerTurn),
    ...Array<Buffer>(9).fill(Buffer.alloc(200_000, 'c')),
    '}',
  ]
  const body = Buffer.concat(chunks.map(chunk => Buffer.from(chunk)))
  const { res, sent } = openResponse()
  res.writeHead(200, { 'Content-Length': body.length })
  sendChunks(res, { chunks, byteLength: body.length }, { hintGc: () => undefined })
  let sentBytes = 0
  while (!res.writableFinished) {
    await turn()
    const bytes = lengthOf(sent) - sentBytes
    t.ok(bytes <= maxSentBytesPerTurn + 1_000, `${bytes} bytes in a turn`)
    sentBytes += bytes
  }
  const all = Buffer.concat(sent)
  t.ok(all.subarray(all.indexOf('\r\n\r\n') + 4).equals(body))
})

t.test('nothing more is sent to a caller that has left in the middle of a long response', async t => {
  const { res, stream, sent } = openResponse()
  res.writeHead(200)
  sendChunks(res, { chunks: [Buffer.alloc(5 * maxSentBytesPerTurn)], byteLength: 5 * maxSentBytesPerTurn }, { hintGc: () => undefined })
  await turn()
  res.destroy()
  const sentBytes = lengthOf(sent)
  for (let i = 0; i < 9; i++) await turn()
  t.ok(stream.destroyed)
  t.ok(sentBytes > maxSentBytesPerTurn / 2 && sentBytes < 3 * maxSentBytesPerTurn)
  t.equal(lengthOf(sent), sentBytes)
})
