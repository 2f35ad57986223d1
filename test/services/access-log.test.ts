import { existsSync, readFileSync, readdirSync, readlinkSync, renameSync, rmSync, statSync, write } from 'node:fs'
import { join } from 'node:path'
import t from '../support/tap.ts'
import { refuse } from '../../src/plugin/reply.ts'
import { openAccessLog, openAccessLogWriter } from '../../src/services/access-log.ts'
import { generateApiKey } from '../../src/services/accounts/api-key.ts'
import type { WriteBytes } from '../../src/services/line-writer.ts'
import { TestClock, TestLog, fakeResult, openTestAccessLog } from '../support/fakes.ts'
import { waitUntil } from '../support/wait-until.ts'

const entry = { requestId: 'r-1', network: 'net', transport: 'http', method: 'eth_call', status: 200, durationMs: 5 }

t.test('a line has what is known of the call, and nothing else', async t => {
  const clock = new TestClock()
  const { accessLog, lines } = openTestAccessLog(clock)
  const upstreamRequest = { id: 's-1', attempts: 2, durationMs: 4.25 }
  const reply = fakeResult('0x1', { cache: 'miss', credits: 80, upstream: 'own', upstreamRequest })
  accessLog.record({ ...entry, reply, durationMs: 5.123_456, bytesReceived: 60, bytesSent: 40 })
  const base = { level: 30, pid: process.pid, event: 'access', time: clock.now(), msg: 'access' }
  t.strictSame(lines.splice(0), [
    {
      ...base,
      requestId: 'r-1',
      network: 'net',
      transport: 'http',
      method: 'eth_call',
      status: 200,
      outcome: 'ok',
      cache: 'miss',
      credits: 80,
      upstream: 'own',
      attempts: 2,
      upstreamDurationMs: 4.25,
      upstreamRequestId: 's-1',
      durationMs: 5.123,
      bytesReceived: 60,
      bytesSent: 40,
    },
  ])
  accessLog.record({ requestId: 'r-2', status: 404, reply: refuse('notFound') })
  t.strictSame(lines, [{ ...base, requestId: 'r-2', status: 404, outcome: 'notFound', rpcCode: -32090 }])
})

t.test('whatever a caller calls a method, a line stays one line of JSON', async t => {
  const { accessLog, lines } = openTestAccessLog(new TestClock())
  for (const method of ['a"b', 'a\nb', 'a\\', '\u2028é😀', '', 'x'.repeat(5_000)]) {
    accessLog.record({ ...entry, method })
    t.equal(lines.pop()?.['method'], method.slice(0, 100))
  }
})

t.test('an API key or a token that a caller gives as a method is in no line', async t => {
  const { accessLog, lines } = openTestAccessLog(new TestClock())
  const key = generateApiKey().reveal()
  const token = 'eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJrZXlfMSJ9.c2lnbmF0dXJl'
  for (const [method, logged] of [
    [key, '***'],
    [`eth_call ${key}\n${token}`, 'eth_call ***\n***'],
    [`${'x'.repeat(80)}${key}`, `${'x'.repeat(80)}***`],
  ] as const) {
    accessLog.record({ ...entry, method })
    t.equal(lines.pop()?.['method'], logged)
  }
})

t.test('with a sample of 0, only errors and slow calls are logged', async t => {
  const { accessLog, lines } = openTestAccessLog(new TestClock(), { sample: 0 })
  const record = (over: object): number => {
    accessLog.record({ ...entry, ...over })
    return lines.splice(0).length
  }
  t.equal(record({ reply: fakeResult('0x1') }), 0)
  t.equal(record({ durationMs: 999.9 }), 0)
  t.equal(record({ durationMs: 1000 }), 1, 'slow')
  t.equal(record({ status: 400 }), 1, 'an HTTP error')
  t.equal(record({ reply: refuse('params') }), 1, 'a JSON-RPC error has HTTP status 200')
})

t.test('a sample is a share of the calls', async t => {
  const draws = [0.09, 0.1, 0.5, 0.05]
  const { accessLog, lines } = openTestAccessLog(new TestClock(), { sample: 0.1 }, () => draws.shift() ?? 1)
  for (const requestId of ['a', 'b', 'c', 'd']) accessLog.record({ ...entry, requestId })
  t.same(
    lines.map(line => line['requestId']),
    ['a', 'd'],
  )
})

t.test('calls are logged only while there is a target', async t => {
  const { accessLog, lines } = openTestAccessLog(new TestClock(), { target: 'none' })
  const { settings } = accessLog
  t.equal(accessLog.isOn, false)
  t.equal(accessLog.startTimer(), undefined)
  accessLog.record(entry)
  accessLog.change({ ...settings, target: 'stdout' })
  t.equal(accessLog.isOn, true)
  t.equal(accessLog.durationSince(accessLog.startTimer()), 0)
  accessLog.record(entry)
  accessLog.change(settings)
  accessLog.record(entry)
  t.equal(lines.length, 1)
})

const openFile = (file: string) => {
  const log = new TestLog()
  const accessLog = openAccessLog({ file, sample: 1 }, new TestClock(), log)
  return { accessLog, log }
}

const idsIn = (file: string): readonly string[] =>
  readFileSync(file, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map(line => String((JSON.parse(line) as { requestId: string }).requestId))

t.test('a file that logrotate has renamed is opened anew under its name, and no line is lost', async t => {
  const file = join(t.testdir(), 'access.log')
  const { accessLog, log } = openFile(file)
  const ids = Array.from({ length: 300 }, (_, i) => `r-${i}`)
  for (const requestId of ids.slice(0, 150)) accessLog.record({ ...entry, requestId })
  renameSync(file, `${file}.1`)
  accessLog.reopen()
  await waitUntil(() => existsSync(file))
  for (const requestId of ids.slice(150)) accessLog.record({ ...entry, requestId })
  await accessLog.close()
  t.ok(idsIn(file).length > 0)
  t.same([...idsIn(`${file}.1`), ...idsIn(file)], ids)
  t.equal(statSync(file).mode & 0o777, 0o640)
  t.same(log.lines, [])
})

const skipWithoutProc = process.platform !== 'linux' && 'reads /proc'

t.test(
  'a file that is opened anew several times during one write, as of a slow disk, keeps no file open but its last',
  { skip: skipWithoutProc },
  async t => {
    const file = join(t.testdir(), 'access.log')
    const written: (() => void)[] = []
    const writer = openAccessLogWriter(file, new TestClock(), new TestLog(), (_fd, bytes, done) => {
      written.push(() => done(null, Buffer.byteLength(bytes)))
    })
    const openCount = () =>
      readdirSync('/proc/self/fd').filter(fd => {
        try {
          return readlinkSync(`/proc/self/fd/${fd}`) === file
        } catch {
          return false
        }
      }).length
    writer.write('a line\n')
    for (let i = 0; i < 3; i += 1) writer.reopen()
    t.equal(openCount(), 2, 'that of the write, and the last')
    for (const done of written) done()
    t.equal(openCount(), 1)
    await writer.close()
    t.equal(openCount(), 0)
  },
)

t.test('when the file cannot be opened anew, the log says so, and lines go on to the old file', async t => {
  const dir = t.testdir({ logs: {} })
  const file = join(dir, 'logs/access.log')
  const { accessLog, log } = openFile(file)
  await waitUntil(() => existsSync(file))
  renameSync(file, join(dir, 'old.log'))
  rmSync(join(dir, 'logs'), { recursive: true })
  t.throws(() => accessLog.reopen(), { message: /^cannot open the log file: ENOENT/ })
  await waitUntil(() => log.lines.length > 0)
  t.match(log.lines, [{ level: 'error', fields: { event: 'access-log-failed', cause: /ENOENT/ } }])
  accessLog.record(entry)
  await accessLog.close()
  t.same(idsIn(join(dir, 'old.log')), ['r-1'])
})

t.test('a file that cannot be opened stops the start', async t => {
  t.throws(() => openFile(join(t.testdir(), 'nowhere/access.log')), { message: /^cannot open the log file: ENOENT/ })
})

t.test('settings whose file cannot be opened change nothing', async t => {
  const dir = t.testdir({ logs: {} })
  const file = join(dir, 'logs/access.log')
  const { accessLog } = openFile(file)
  t.teardown(() => accessLog.close())
  const { settings } = accessLog
  accessLog.change({ ...settings, target: 'none' })
  rmSync(join(dir, 'logs'), { recursive: true })
  t.throws(
    () => {
      accessLog.change(settings)
    },
    { message: /^cannot open the log file: ENOENT/ },
  )
  t.equal(accessLog.settings.target, 'none')
  t.equal(accessLog.isOn, false)
})

t.test('a reload opens what the configuration names now, and writes to it once it is committed', async t => {
  const dir = t.testdir()
  const [first, second] = [join(dir, 'first.log'), join(dir, 'second.log')]
  const { accessLog } = openFile(first)
  const config = { file: second, sample: 0 } as const
  const abandoned = accessLog.prepare(config)
  accessLog.record({ ...entry, requestId: 'r-1' })
  await abandoned.abandon()
  t.match(accessLog.settings, { sample: 1 })
  const prepared = accessLog.prepare(config)
  accessLog.record({ ...entry, requestId: 'r-2' })
  prepared.commit()
  accessLog.record({ ...entry, requestId: 'r-3', status: 400 })
  t.match(accessLog.settings, { target: 'file', sample: 0 })
  await accessLog.close()
  await waitUntil(() => idsIn(first).length === 2)
  await waitUntil(() => idsIn(second).length > 0)
  t.same(idsIn(second), ['r-3'])
  t.throws(() => accessLog.prepare({ ...config, file: join(dir, 'nowhere/access.log') }), { message: /^cannot open the log file: ENOENT/ })
})

t.test('when the disk was full for long, lines are written again once it has space, and the log says how many were dropped', async t => {
  const [clock, log, file] = [new TestClock(), new TestLog(), join(t.testdir(), 'access.log')]
  let isFull = true
  const writeUnlessFull: WriteBytes = (fd, bytes, done) =>
    isFull ? void setImmediate(done, Object.assign(new Error('no space left'), { code: 'ENOSPC' }), 0) : write(fd, String(bytes), done)
  const writer = openAccessLogWriter(file, clock, log, writeUnlessFull)
  const line = `${'x'.repeat(1023)}\n`
  for (let i = 0; i < 4096; i++) {
    writer.write(line)
    if (i % 64 === 0) await new Promise(setImmediate)
  }
  const causes = () => log.lines.filter(({ level }) => level === 'error').length
  t.equal(causes(), 2, 'one line for each cause')
  isFull = false
  await waitUntil(() => {
    clock.advance(1000)
    return log.lines.some(({ level }) => level === 'info')
  })
  t.equal(statSync(file).size, 1_048_576, 'what waited is written')
  t.match(log.lines.at(-1), { fields: { event: 'access-log-written', droppedLines: 3072 } })
  t.equal(causes(), 2)
  writer.write(line)
  await writer.close()
  t.equal(statSync(file).size, 1_048_576 + 1024)
})
