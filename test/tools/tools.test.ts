import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import type { FunctionCoverage } from './call-coverage.ts'
import { findUnitlessConstants, readSourceFiles, withImporters } from './source-files.ts'

const runTool = async (name: string): Promise<unknown> => {
  const script = fileURLToPath(new URL(`./${name}.js`, import.meta.url))
  return JSON.parse((await promisify(execFile)(process.execPath, [script, '--json'])).stdout)
}

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

void t.test('statistics hold the size of the sources and what exceeds a limit', async t => {
  t.match(await runTool('stats'), {
    sourceFiles: readSourceFiles(['src', 'plugins']).length,
    lines: Number,
    singleImporterFiles: Array,
    longFiles: Array,
    longFunctions: Array,
    unitlessConstants: Array,
  })
})

void t.test('a numeric constant whose name says neither its unit nor what it limits is found', async t => {
  const code =
    'const patience = 5\nexport const few: number = 1 << 4\nconst retryDelayMs = 250\nconst maxRetries = 3\nconst callsPerLease = 8\n'
  const source = { file: 'a.ts', text: code, code, imports: [], valueImports: [], staticImports: [] }
  t.same(findUnitlessConstants([source]), ['a.ts patience', 'a.ts few'])
})

void t.test('the importers of a file are found, directly or through others', async t => {
  const source = (file: string, ...imports: readonly string[]) => ({
    file,
    text: '',
    code: '',
    imports,
    valueImports: [],
    staticImports: [],
  })
  const sources = [source('a.ts'), source('b.ts', 'a.ts'), source('c.ts', 'b.ts'), source('d.ts', 'e.ts'), source('e.ts')]
  t.same([...withImporters(sources, ['a.ts'])], ['a.ts', 'b.ts', 'c.ts'])
})
