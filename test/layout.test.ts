import { test } from 'tap'
import { readSourceFiles } from './tools/source-files.ts'
import type { SourceFile } from './tools/source-files.ts'

const sources = readSourceFiles(['src', 'plugins'])

/** A folder without files is a mistake of the rule, not a rule that holds. */
const filesIn = (folder: string): readonly SourceFile[] => {
  const files = sources.filter(({ file }) => file.startsWith(folder))
  if (files.length === 0) throw new Error(`${folder} has no files`)
  return files
}

/** `file -> import` for each import of these files that is not allowed. */
const forbiddenImports = (files: readonly SourceFile[], isAllowed: (path: string) => boolean): readonly string[] =>
  files.flatMap(({ file, imports }) => imports.filter(path => !isAllowed(path)).map(path => `${file} -> ${path}`))

const filesMatching = (pattern: RegExp, except: readonly string[] = []): readonly string[] =>
  sources.filter(({ file, code }) => pattern.test(code) && !except.includes(file)).map(({ file }) => file)

test('the sources are found', async t => {
  t.ok(sources.some(({ file }) => file === 'src/main.ts'))
  t.ok(sources.some(({ file, imports }) => file === 'src/plugin/plugin.ts' && imports.includes('src/plugin/call.ts')))
})

test('plugins import nothing from src but the contract', async t => {
  const contract = ['plugin', 'options-schema', 'call', 'reply'].map(name => `src/plugin/${name}.ts`)
  t.same(
    forbiddenImports(filesIn('plugins/'), path => path.startsWith('plugins/') || contract.includes(path)),
    [],
  )
})

test('src knows plugins only through their list, in one place', async t => {
  const imports = forbiddenImports(filesIn('src/'), path => !path.startsWith('plugins/'))
  t.same(imports, ['src/cli/commands.ts -> plugins/index.ts'])
})

test('json, json-rpc and services know nothing of the servers', async t => {
  t.same(
    forbiddenImports(
      [...filesIn('src/json/'), ...filesIn('src/json-rpc/'), ...filesIn('src/services/')],
      path => !path.startsWith('src/server/'),
    ),
    [],
  )
})

test('no file of src or plugins imports a test', async t => {
  t.same(
    forbiddenImports(sources, path => path.startsWith('src/') || path.startsWith('plugins/') || path === 'package.json'),
    [],
  )
})

test('imports go round in no circle', async t => {
  const graph = new Map(sources.map(({ file, imports }) => [file, imports]))
  t.same(findImportCycle(graph), [])
})

test('a start loads nothing that only some gateways need, or that can come later', async t => {
  const loaded = new Set<string>()
  const load = (file: string): void => {
    if (loaded.has(file)) return
    loaded.add(file)
    sources.find(source => source.file === file)?.staticImports.forEach(load)
  }
  for (const file of ['src/main.ts', 'src/cli/start.ts', 'plugins/index.ts', 'src/store/lmdb/lmdb-store.ts']) load(file)
  t.ok(
    ['ajv', 'koa', 'lmdb', 'src/server/websocket.ts'].every(name => loaded.has(name)),
    'imports are found',
  )
  t.same(
    ['ws', 'koa-bodyparser', '@redis/client', 'src/cluster/primary.ts'].filter(name => loaded.has(name)),
    [],
  )
})

test('time is read in one place', async t => {
  t.same(filesMatching(/\bDate\.now\(|\bnew Date\(\)|\bperformance\.now\(/, ['src/services/clock.ts']), [])
})

test('types are never switched off', async t => {
  t.same(filesMatching(/(?<![.\w])any\b(?!\s*[(:])/), [])
  t.same(
    sources.filter(({ text }) => /@ts-(?:ignore|nocheck)/.test(text)).map(({ file }) => file),
    [],
  )
})

/** The files of one circle of imports, or none. */
const findImportCycle = (graph: ReadonlyMap<string, readonly string[]>): readonly string[] => {
  const done = new Set<string>()
  const visit = (file: string, trail: readonly string[]): readonly string[] => {
    if (trail.includes(file)) return [...trail.slice(trail.indexOf(file)), file]
    if (done.has(file)) return []
    done.add(file)
    return firstNonEmpty(graph.get(file) ?? [], next => visit(next, [...trail, file]))
  }
  return firstNonEmpty([...graph.keys()], file => visit(file, []))
}

const firstNonEmpty = (files: readonly string[], find: (file: string) => readonly string[]): readonly string[] => {
  for (const file of files) {
    const found = find(file)
    if (found.length > 0) return found
  }
  return []
}
