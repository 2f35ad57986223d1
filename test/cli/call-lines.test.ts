import t from '../support/tap.ts'
import { createCallLines } from '../../src/cli/call-lines.ts'
import { refuse } from '../../src/plugin/reply.ts'
import { openAccessLog } from '../../src/services/access-log.ts'
import { TestClock, TestLog, fakeResult } from '../support/fakes.ts'

const clock = new TestClock()

/** The lines that are printed of calls. */
const linesOf = async (
  calls: readonly Parameters<ReturnType<typeof createCallLines>>[0][],
  accountName: (id: string) => Promise<string | undefined> = async () => 'alice',
): Promise<readonly string[]> => {
  const lines: string[] = []
  const terminal = { out: (line: string) => void lines.push(line.replace(/^\d\d:\d\d:\d\d {2}/, '')), err: () => undefined, env: {} }
  // The gateway hands calls to an observer by its access log, whether that is written or not.
  const accessLog = openAccessLog({ sample: 0 }, clock, new TestLog(), createCallLines(terminal, { clock, accountName }))
  t.ok(accessLog.isOn)
  for (const call of calls) accessLog.record(call)
  while (lines.length < calls.length) await Promise.resolve()
  return lines
}

const call = { requestId: 'r-1', network: 'net', transport: 'http', method: 'eth_call', status: 200, durationMs: 5.04, accountId: 'acc_1' }

t.test('a line says who called what, how it ended, what it cost, how long it took, and which node answered', async t => {
  t.strictSame(
    await linesOf([
      { ...call, reply: fakeResult('0x1', { cache: 'miss', credits: 80, upstream: 'own' }) },
      { ...call, reply: fakeResult('0x1', { cache: 'hit', credits: 1_000 }), durationMs: 0.31 },
      { ...call, reply: refuse('params', { message: 'params[0] is missing' }) },
      { requestId: 'r-2', status: 404, reply: refuse('notFound') },
      { ...call, method: 'x\u001b[2J\n', reply: undefined, status: 499 },
    ]),
    [
      'eth_call                    alice        80 credits                5.0 ms  ok  own',
      'eth_call                    alice     1,000 credits  cache hit     0.3 ms  ok',
      'eth_call                    alice         0 credits                5.0 ms  params (-32602)',
      '-                           -             0 credits                0.0 ms  notFound (-32090)',
      'x?[2J?                      alice         0 credits                5.0 ms  HTTP 499',
    ],
  )
})

t.test('an account is looked up once, and its id stands for a name that is not known', async t => {
  const asked: string[] = []
  const accountName = async (id: string) => {
    asked.push(id)
    if (id === 'acc_2') throw new Error('the store is unreachable')
    return undefined
  }
  const reply = fakeResult('0x1')
  const lines = await linesOf(
    [
      { ...call, reply },
      { ...call, accountId: 'acc_2', reply },
      { ...call, reply },
    ],
    accountName,
  )
  t.match(lines, [/ acc_1 /, / acc_2 /, / acc_1 /])
  t.same(asked, ['acc_1', 'acc_2'])
})

t.test('without an observer and without a target, calls are not logged at all', async t => {
  const accessLog = openAccessLog({ sample: 1 }, clock, new TestLog())
  t.notOk(accessLog.isOn)
  t.equal(accessLog.startTimer(), undefined)
})
