import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from '../support/tap.ts'
import { compiledOf, countText, mutants } from '../mutants/mutants.ts'
import type { FunctionCoverage } from './call-coverage.ts'
import { findUnitlessConstants, readSourceFiles, withImporters } from './source-files.ts'

const runTool = async (name: string): Promise<unknown> => {
  const script = fileURLToPath(new URL(`./${name}.js`, import.meta.url))
  return JSON.parse((await promisify(execFile)(process.execPath, [script, '--json'])).stdout)
}

/** The exit code of the runner for test files with these contents, and what it prints. */
const runTestFiles = async (dir: string, files: readonly string[]): Promise<{ readonly code: number; readonly output: string }> => {
  const script = fileURLToPath(new URL('./tap-runner.js', import.meta.url))
  const run = promisify(execFile)(process.execPath, [script, ...files.map(file => join(dir, file))])
  return run.then(
    ({ stdout }) => ({ code: 0, output: stdout }),
    ({ code, stdout }: { readonly code: number; readonly stdout: string }) => ({ code, output: stdout }),
  )
}

void t.test('a file without tests, an early end and an error that nobody handles fail the run of all tests', async t => {
  const passing = "import t from 'tap'\nt.test('passes', async t => t.ok(true))\n"
  const support = new URL('../support/tap.js', import.meta.url).href
  const dir = t.testdir({
    'passing.test.js': passing,
    'skipped.test.js': "import t from 'tap'\nt.plan(0, 'no server here')\n",
    'empty.test.js': 'console.log(1)\n',
    'ended.test.js': `${passing}t.test('ends', async () => process.reallyExit(0))\n`,
    'killed.test.js': `${passing}t.test('is killed', () => { process.kill(process.pid, 'SIGKILL'); return new Promise(() => {}) })\n`,
    'bailing.test.js': 'console.log("Bail out! no disk")\n',
    'stray.test.js': `${passing.replace('tap', support)}t.test('rejects', async () => void Promise.reject(new Error('nobody awaits this')))\n`,
  })

  const passed = await runTestFiles(dir, ['passing.test.js', 'skipped.test.js'])
  t.equal(passed.code, 0)
  t.match(passed.output, /\n1 passed, 0 failed, 1 skipped\n$/)

  const failed = await runTestFiles(dir, ['empty.test.js', 'ended.test.js', 'killed.test.js', 'passing.test.js'])
  t.equal(failed.code, 1)
  for (const reason of ['the file has no tests', 'the process ended before its tests did', 'killed by SIGKILL'])
    t.match(failed.output, reason)
  t.match(failed.output, /\n3 passed, 3 failed\n$/)

  const stray = await runTestFiles(dir, ['stray.test.js'])
  t.equal(stray.code, 1)
  t.match(stray.output, /nobody awaits this at .*stray\.test\.js:3:/)

  const bailed = await runTestFiles(dir, ['bailing.test.js'])
  t.equal(bailed.code, 1)
  t.match(bailed.output, /the run ended early: Bail out! no disk\n\n0 passed, 1 failed\n$/)
})

void t.test('a trace holds the functions that ran during one call, cached or not', async t => {
  const { cached, uncached } = (await runTool('trace')) as Record<string, Record<string, readonly FunctionCoverage[]>>

  t.match(
    cached?.['src/json-rpc/handle-message.ts']?.find(({ name }) => name === 'handleMessage'),
    { line: Number, calls: Number },
  )
  const nodeClients = (files: object = {}) => Object.keys(files).filter(file => file.startsWith('src/services/upstream-client/'))
  t.same(nodeClients(cached), [])
  t.ok(nodeClients(uncached).length > 0)
  t.ok(Object.keys(uncached ?? {}).length > Object.keys(cached ?? {}).length)
})

void t.test('statistics hold the size of each folder of the sources and of the tests', async t => {
  const { source, test, documentationWords } = (await runTool('stats')) as {
    readonly source: readonly { readonly folder: string; readonly files: number; readonly lines: number }[]
    readonly test: readonly { readonly folder: string }[]
    readonly documentationWords: number
  }
  t.equal(source.find(({ folder }) => folder === 'src')?.files, readSourceFiles(['src']).length)
  t.ok(source.some(({ folder, lines }) => folder === 'plugins/failover' && lines > 0))
  t.ok(test.some(({ folder }) => folder === 'test/tools'))
  t.ok(documentationWords > 1000)
})

void t.test('a numeric constant whose name says neither its unit nor what it limits is found', async t => {
  const code =
    'const patience = 5\nexport const few: number = 1 << 4\nconst retryDelayMs = 250\nconst maxRetries = 3\nconst callsPerLease = 8\n'
  const source = { file: 'a.ts', text: code, code, imports: [], valueImports: [], staticImports: [] }
  t.same(findUnitlessConstants([source]), ['a.ts patience', 'a.ts few'])
})

const source = (file: string, ...imports: readonly string[]) => ({ file, text: '', code: '', imports, valueImports: [], staticImports: [] })

void t.test('the importers of a file are found, directly or through others', async t => {
  const sources = [source('a.ts'), source('b.ts', 'a.ts'), source('c.ts', 'b.ts'), source('d.ts', 'e.ts'), source('e.ts')]
  t.same([...withImporters(sources, ['a.ts'])], ['a.ts', 'b.ts', 'c.ts'])
})

void t.test('the text of each mutant is in its source file and in its compiled file exactly once', async t => {
  for (const { file, text } of mutants)
    for (const each of [file, compiledOf(file)]) t.equal(countText({ file: each, text }), 1, `${each}: ${text}`)
})
