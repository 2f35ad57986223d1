import { text } from 'node:stream/consumers'
import { test } from './tap.ts'
import TapReporter from './tap-reporter.ts'

const report = (tap: string): Promise<string> => {
  const reporter = new TapReporter()
  reporter.end(tap)
  return text(reporter)
}

/** The last test point of a file that failed. */
const ended = (name: string, exitCode: string, signal: string): string =>
  `not ok 1 - dist/test/${name}.test.js # time=1200ms\n  ---\n  exitCode: ${exitCode}\n  signal: ${signal}\n  ...\n`

test('a test counts once, and a test that only contains others does not', async t => {
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

test('a failure is reported with its line in the source, the text of this line and the difference', async t => {
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

test('skipped and todo tests are printed with their reason, and count as skipped', async t => {
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

test('a file that crashes, is killed or times out is reported as such', async t => {
  const end = async (exitCode: string, signal: string) =>
    (await report(`# Subtest: dist/test/a.test.js\n    1..0\n${ended('a', exitCode, signal)}1..1\n`)).split('\n')[2]
  t.equal(await end('7', 'null'), '  crashed with exit code 7')
  t.equal(await end('null', 'SIGKILL'), '  killed by SIGKILL')
  t.equal(await end('null', 'SIGALRM'), '  timed out')
})

test('what tests print is shown', async t => {
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
