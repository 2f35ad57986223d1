import { text } from 'node:stream/consumers'
import t from './tap.ts'
import TapReporter from './tap-reporter.ts'

const report = (tap: string): Promise<string> => {
  const reporter = new TapReporter()
  reporter.end(tap)
  return text(reporter)
}

/** The last test point of a file that failed. */
const ended = (name: string, exitCode: string, signal: string): string =>
  `not ok 1 - dist/test/${name}.test.js # time=1200ms\n  ---\n  exitCode: ${exitCode}\n  signal: ${signal}\n  ...\n`

t.test('a test counts once, and a test that only contains others does not', async t => {
  t.equal(
    await report(`
# Subtest: dist/test/wire/scan.test.js
    # Subtest: numbers
        # Subtest: whole
            ok 1 - should be equal
            ok 2 - should be equal
            1..2
        ok 1 - whole
        # Subtest: broken
            ok 1 - should be equal
            1..1
        ok 2 - broken
        1..2
    ok 1 - numbers
    1..1
ok 1 - dist/test/wire/scan.test.js # time=1234ms
1..1
`),
    `\
ok   test/wire/scan.test.ts (2 passed, 1.2 s)

2 passed, 0 failed
`,
  )
})

t.test('a failure is reported with its line in the source, the text of this line and the difference', async t => {
  t.equal(
    await report(`
# Subtest: dist/test/a.test.js
    # Subtest: numbers
        not ok 1 - should be equal
          ---
          at: { fileName: test/a.test.ts, lineNumber: 3, columnNumber: 5 }
          diff: |
            -2
            +1
          hint: look again
          source: |
            t.test('numbers', async t => {
              t.equal(f(1), 2)
            ----^
            })
          ...
        1..1
    not ok 1 - numbers
    1..1
${ended('a', '1', 'null')}1..1
`),
    `\
FAIL test/a.test.ts (0 passed, 1 failed, 1.2 s)

  numbers > should be equal at test/a.test.ts:3:5
    t.equal(f(1), 2)
    -2
    +1
    { hint: 'look again' }

failed:
  test/a.test.ts > numbers

0 passed, 1 failed
`,
  )
})

t.test('skipped and todo tests are printed with their reason, and count as skipped', async t => {
  t.equal(
    await report(`
# Subtest: dist/test/a.test.js
    ok 1 - one # SKIP no server here
    not ok 2 - two # TODO later
    ok 3 - three
    1..3
ok 1 - dist/test/a.test.js # time=0ms
1..1
`),
    `\
ok   test/a.test.ts (0 passed, 2 skipped, 0.0 s)
    skipped: one (no server here)
    todo: two (later)

0 passed, 0 failed, 2 skipped
`,
  )
})

t.test('a file that crashes, is killed or times out is reported as such', async t => {
  const end = async (exitCode: string, signal: string) =>
    (await report(`# Subtest: dist/test/a.test.js\n    1..0\n${ended('a', exitCode, signal)}1..1\n`)).split('\n')[2]
  t.equal(await end('7', 'null'), '  crashed with exit code 7')
  t.equal(await end('null', 'SIGKILL'), '  killed by SIGKILL')
  t.equal(await end('null', 'SIGALRM'), '  timed out')
})

t.test('what tests print is shown', async t => {
  t.match(
    await report(`
# Subtest: dist/test/a.test.js
    ok 1 - fine
    a note
    1..1
ok 1 - dist/test/a.test.js
1..1
`),
    'a note',
  )
})

t.test('of more than ten files the slowest ten are listed before the totals', async t => {
  const fileOf = (ms: number) =>
    `# Subtest: dist/test/${ms}.test.js\n    ok 1 - fine\n    1..1\nok 1 - dist/test/${ms}.test.js # time=${ms}ms\n`
  const reportOf = (times: readonly number[]) => report(`${times.map(fileOf).join('')}1..${times.length}\n`)
  const times = [300, 1_200, 100, 900, 200, 1_100, 400, 1_000, 500, 800, 600]
  const lines = (await reportOf(times)).split('\n')
  t.same(lines.slice(11, 14), ['', 'slowest:', '     1.2 s  test/1200.test.ts'])
  t.equal(lines[22], '     0.2 s  test/200.test.ts')
  t.same(lines.slice(23), ['', '11 passed, 0 failed', ''])
  t.notMatch(await reportOf(times.slice(1)), 'slowest')
})

t.test('files that share a process are reported each by itself, and so is the end of the process before theirs', async t => {
  const passing = `# Subtest: json
    # Subtest: dist/test/json/a.test.js
        # Subtest: numbers
            ok 1 - should be equal
            1..1
        ok 1 - numbers
        1..1
    ok 1 - dist/test/json/a.test.js # time=1200ms
`
  const failing = `    # Subtest: dist/test/json/b.test.js
        # Subtest: numbers
            not ok 1 - should be equal
            1..1
        not ok 1 - numbers
        1..1
    not ok 2 - dist/test/json/b.test.js # time=300ms
`
  const end = (exit: string) => `    1..2\nnot ok 1 - json # time=1500ms\n  ---\n  exitCode: ${exit}\n  ...\n1..1\n`
  const ok = 'ok   test/json/a.test.ts (1 passed, 1.2 s)\n'
  t.equal(await report(`${passing}    1..1\nok 1 - json # time=1200ms\n1..1\n`), `${ok}\n1 passed, 0 failed\n`)
  t.equal(
    await report(passing + failing + end('1')),
    `${ok}FAIL test/json/b.test.ts (0 passed, 1 failed, 0.3 s)

  numbers > should be equal

failed:
  test/json/b.test.ts > numbers

1 passed, 1 failed
`,
  )
  t.equal(await report(passing + end('7')), `${ok}FAIL json: crashed with exit code 7\n\nfailed:\n  json\n\n1 passed, 1 failed\n`)
})
