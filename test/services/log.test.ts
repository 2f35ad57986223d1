import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { pino } from 'pino'
import t from '../support/tap.ts'
import { toSourceLines } from '../../src/runtime/source-lines.ts'
import { BoundedLineWriter } from '../../src/services/line-writer.ts'
import type { WriteBytes } from '../../src/services/line-writer.ts'
import { openLog } from '../../src/services/log.ts'
import { logLevels } from '../../src/services/log-settings.ts'
import { TestClock } from '../support/fakes.ts'

/** A log, and the levels of the lines that it wrote. */
const open = (level: (typeof logLevels)[number]) => {
  const lines: string[] = []
  const destination = {
    write(line: string) {
      const { level, msg } = JSON.parse(line)
      lines.push(`${pino.levels.labels[level]} ${msg}`)
    },
  }
  return { lines, log: openLog(level, destination) }
}

t.test('the levels are those of pino', async t => {
  t.same(logLevels, [...Object.keys(pino.levels.values).sort((a, b) => pino.levels.values[a]! - pino.levels.values[b]!), 'silent'])
})

t.test('a level that is set holds for children that were made before it, and for their children', async t => {
  const { lines, log } = open('warn')
  const child = log.child({ network: 'a' })
  const grandchild = child.child({ plugin: 'b' })
  const write = (): readonly string[] => {
    for (const [name, each] of Object.entries({ log, child, grandchild })) {
      each.info({}, name)
      each.error({}, name)
    }
    return lines.splice(0)
  }
  const errors = ['error log', 'error child', 'error grandchild']
  t.same(write(), errors)
  log.level = 'debug'
  t.equal(log.level, 'debug')
  t.same(write(), ['info log', 'error log', 'info child', 'error child', 'info grandchild', 'error grandchild'])
  log.level = 'error'
  t.same(write(), errors)
  log.level = 'silent'
  t.same(write(), [])
})

t.test('a stack names the lines of the sources, not those of the bundle', async t => {
  const dir = t.testdir({
    'main.js': '',
    // Line 2, column 3 is line 11, column 5 of the source.
    'main.js.map': JSON.stringify({ version: 3, sources: ['../../src/cli/start.ts'], names: [], mappings: ';EAUI' }),
    'damaged.js.map': '{',
  })
  const toLines = (place: string) => toSourceLines(`TypeError: no\n    at run (${place})\n    at ${place}`, join(dir, '/'))
  t.equal(toLines(`${dir}/main.js:2:3`), 'TypeError: no\n    at run (src/cli/start.ts:11:5)\n    at src/cli/start.ts:11:5')
  const others = ['main.js', 'damaged.js', 'none.js', '../main.js', 'x/main.js', 'main.js:2', 'a main.js'].map(file => `${dir}/${file}:1:1`)
  for (const place of [...others, 'main.js:2:3', 'node:internal/timers:1:1', `${dir}/`, dir]) {
    t.equal(toLines(place), `TypeError: no\n    at run (${place})\n    at ${place}`)
  }
})

t.test('a pipe that is not read gets its lines whole and in order later; when too many wait, they are missing in one place', async t => {
  const clock = new TestClock()
  let [received, spaceBytes] = ['', 0]
  const writeBytes: WriteBytes = (_fd, bytes, done) => {
    if (spaceBytes === 0) return done(Object.assign(new Error('full'), { code: 'EAGAIN' }), 0)
    const written = Buffer.from(bytes).subarray(0, spaceBytes)
    spaceBytes -= written.length
    received += written.toString('latin1')
    done(null, written.length)
  }
  const writer = new BoundedLineWriter({
    destination: 'stdout',
    clock,
    writeBytes,
    onRecovered: lines => writer.write(`${lines} lines were dropped\n`),
  })
  const lineOf = (number: number) => `${number} é ${'x'.repeat(number % 300)}\n`
  const write = (from: number, to: number) => {
    for (let number = from; number < to; number++) writer.write(lineOf(number))
  }
  const read = (bytes: number) => {
    spaceBytes = bytes
    clock.advance(10)
  }
  const latin1Of = (lines: string) => Buffer.from(lines).toString('latin1')
  const linesBetween = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => lineOf(from + i)).join('')

  spaceBytes = Infinity
  write(0, 10)
  t.equal(received, latin1Of(linesBetween(0, 10)), 'each line is written at once')
  spaceBytes = 0
  write(10, 1000)
  for (let i = 0; i < 100; i++) read(1 + 37 * i)
  write(1000, 1010)
  read(Infinity)
  t.equal(received, latin1Of(linesBetween(0, 1010)))

  received = ''
  spaceBytes = 0
  write(0, 20_000)
  read(1000)
  write(20_000, 20_010)
  read(Infinity)
  const dropped = Number(/^(\d+) lines were dropped$/m.exec(received)?.[1])
  t.ok(dropped > 10)
  t.equal(received, latin1Of(`${linesBetween(0, 20_010 - dropped)}${dropped} lines were dropped\n`))
  const waitedBytes = Buffer.byteLength(linesBetween(0, 20_010 - dropped))
  t.ok(waitedBytes <= 1_048_576 && waitedBytes > 1_048_576 - 400, 'a MiB of them waited')
  received = ''
  write(0, 10)
  t.equal(received, latin1Of(linesBetween(0, 10)))

  spaceBytes = 0
  write(10, 20)
  writer.closeSync() // returns although nobody reads
  const closed = writer.close()
  clock.advance(1000)
  await closed
})

t.test('no line is lost when a process exits with more lines than a pipe holds', async t => {
  const logFile = new URL('../../src/services/log.js', import.meta.url).href
  const program = `import { openLog } from ${JSON.stringify(logFile)}
    const log = openLog('info')
    for (let i = 0; i < 2000; i++) log.info({ i, padding: 'x'.repeat(100) }, 'line')
    process.exit(3)`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], { stdio: ['ignore', 'pipe', 'inherit'] })
  const exited = once(child, 'exit')
  const lines = (await text(child.stdout)).split('\n')
  t.same(await exited, [3, null])
  t.equal(lines.pop(), '')
  t.same(
    lines.map(line => JSON.parse(line).i),
    Array.from({ length: 2000 }, (_, i) => i),
  )
})
