import { readFileSync } from 'node:fs'
import t from './support/tap.ts'
import { findUnitlessConstants, readSourceFiles } from './tools/source-files.ts'
import type { SourceFile } from './tools/source-files.ts'

/** The dashboard's page runs in browsers: it has rules of its own. */
const pageFolder = 'src/portal/page/'

const sources = readSourceFiles(['src', 'plugins']).filter(({ file }) => !file.startsWith(pageFolder))

/** A folder without files is a mistake of the rule, not a rule that holds. */
const filesIn = (folder: string): readonly SourceFile[] => {
  const files = sources.filter(({ file }) => file.startsWith(folder))
  if (files.length === 0) throw new Error(`${folder} has no files`)
  return files
}

/** `file -> import` for each import of these files that is not allowed. */
const forbiddenImports = (
  files: readonly Pick<SourceFile, 'file' | 'imports'>[],
  isAllowed: (path: string) => boolean,
): readonly string[] => files.flatMap(({ file, imports }) => imports.filter(path => !isAllowed(path)).map(path => `${file} -> ${path}`))

const filesMatching = (pattern: RegExp, except: readonly string[] = []): readonly string[] =>
  sources.filter(({ file, code }) => pattern.test(code) && !except.includes(file)).map(({ file }) => file)

t.test('the sources are found', async t => {
  t.ok(sources.some(({ file }) => file === 'src/main.ts'))
  t.ok(sources.some(({ file, imports }) => file === 'src/plugin/plugin.ts' && imports.includes('src/plugin/call.ts')))
})

/**
 * The folders of src that each folder may import, besides itself; a folder after `types` only for types. `cli` may import
 * every folder.
 */
const allowedImports: Readonly<Record<string, string>> = {
  util: 'types plugin services',
  json: 'util',
  'json-rpc': 'util json plugin types services',
  plugin: 'util json services',
  store: 'util plugin runtime services types config',
  services: 'util json json-rpc plugin store runtime',
  config: 'util plugin services runtime',
  runtime: '',
  server: 'util plugin services json-rpc runtime types config core',
  portal: 'util plugin services store server config',
  core: 'util json plugin services store server portal types config',
  testing: 'util json-rpc plugin services store config core',
  cluster: 'util plugin services store server portal runtime core types config',
}

/** `src/json/scanner.ts` is in `json`; a file beside the folders is in none. */
const folderOf = (path: string): string | undefined => /^src\/([^/]+)\//.exec(path)?.[1]

t.test('each folder of src imports only the folders below it', async t => {
  const folders = new Set(filesIn('src/').flatMap(({ file }) => folderOf(file) ?? []))
  t.same([...folders].filter(folder => allowedImports[folder] === undefined).sort(), ['cli'])
  for (const [folder, allowed] of Object.entries(allowedImports)) {
    const [values = '', types = ''] = allowed.split('types')
    const isIn = (path: string, names: string) => [folder, ...names.split(' ')].includes(folderOf(path) ?? '')
    const files = filesIn(`src/${folder}/`)
    t.same(
      forbiddenImports(files, path => isIn(path, `${values} ${types}`)),
      [],
    )
    t.same(
      forbiddenImports(
        files.map(({ file, valueImports }) => ({ file, imports: valueImports })),
        path => folderOf(path) === undefined || isIn(path, values),
      ),
      [],
      `${folder}: only types`,
    )
  }
})

t.test('the page imports nothing but itself, words and judgements that others share, Preact and uPlot', async t => {
  const files = readSourceFiles([pageFolder]).filter(({ file }) => !file.endsWith('vite.config.ts'))
  t.ok(files.length > 10)
  const shared = [
    'src/portal/state-labels.ts',
    'src/portal/failure-share.ts',
    'src/portal/nodes-left.ts',
    'src/services/node-reasons.ts',
    'src/util/time-spans.ts',
  ]
  const isAllowed = (path: string) =>
    path.startsWith(pageFolder) || shared.includes(path) || /^(?:preact|@preact\/signals|uplot)/.test(path)
  t.same(
    files.flatMap(({ file, valueImports }) => valueImports.filter(path => !isAllowed(path)).map(path => `${file} -> ${path}`)),
    [],
  )
})

t.test('a start installs what src and plugins import: package.json lists it, and not test/package.json alone', async t => {
  const { dependencies, devDependencies } = JSON.parse(readFileSync('package.json', 'utf8')) as Record<string, object>
  const listed = Object.keys({ ...dependencies, ...devDependencies })
  const packages = readSourceFiles(['src', 'plugins']).flatMap(({ file, valueImports }) =>
    // The dashboard and `plugins new` have text with imports, which others run.
    valueImports.filter(name => !/^(?:src|plugins)\/|^node:|^tollgate\/|^(?:viem|ethers)$/.test(name)).map(name => `${file}: ${name}`),
  )
  t.ok(packages.length > 50)
  t.same(
    packages.filter(each => !listed.some(name => `${each}/`.includes(`: ${name}/`))),
    [],
  )
})

t.test('no package is in test/node_modules, where compiled tests, which are in dist/test, would not find it', async t => {
  const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8')) as { readonly packages: object }
  const paths = Object.keys(packages)
  t.ok(paths.includes('node_modules/tap'))
  t.same(
    paths.filter(path => path.startsWith('test/node_modules/')),
    [],
  )
})

t.test('the table of operations knows neither the command line nor the API that are made from it', async t => {
  t.same(
    forbiddenImports(filesIn('src/portal/operations/'), path => !/^(?:src\/portal\/(?:operator|routes)\/|koa|@koa\/)/.test(path)),
    [],
  )
})

t.test('plugins import nothing from src but the contract, and what is theirs alone', async t => {
  const contract = ['plugin', 'internal', 'call'].map(name => `src/plugin/${name}.ts`)
  t.same(
    forbiddenImports(filesIn('plugins/'), path => path.startsWith('plugins/') || contract.includes(path)),
    [],
  )
})

t.test('src does not import what is for built-in plugins alone, and each name of it has a user', async t => {
  const internal = 'src/plugin/internal.ts'
  t.same(
    forbiddenImports(filesIn('src/'), path => path !== internal),
    [],
  )
  const { code } = filesIn(internal)[0]!
  const names = Array.from(code.matchAll(/^export (?:type )?\{([^}]+)\}/gm), ([, list = '']) => list.match(/\w+/g) ?? []).flat()
  t.ok(names.length > 30)
  const plugins = filesIn('plugins/').map(file => file.code)
  t.same(
    names.filter(name => !plugins.some(text => new RegExp(`\\b${name}\\b`).test(text))),
    [],
  )
})

t.test('src imports plugins only through their list, for the command line and for tests of plugins', async t => {
  const imports = forbiddenImports(filesIn('src/'), path => !path.startsWith('plugins/'))
  t.same(imports, ['src/cli/built-in-plugins.ts -> plugins/index.ts', 'src/testing/harness.ts -> plugins/index.ts'])
})

/** The one folder or file in which each of these packages is used; koa also has the portal's routes. */
const packageUsers: Readonly<Record<string, string>> = {
  koa: 'src/(server|portal)/',
  '@koa/router': 'src/portal/',
  'koa-session': 'src/portal/people/sessions.ts',
  diff: 'src/util/line-diff.ts',
  lmdb: 'src/store/lmdb/',
  '@redis/client': 'src/store/redis/',
  '@opentelemetry/api': 'src/core/tracing.ts',
  opossum: 'src/services/circuit-breaker.ts',
  pino: 'src/services/log.ts',
  yaml: 'src/config/',
}

t.test('each package is used in one place', async t => {
  for (const [name, place] of Object.entries(packageUsers)) {
    const users = sources
      .filter(({ valueImports }) => valueImports.some(used => used === name || used.startsWith(`${name}/`)))
      .map(({ file }) => file)
    t.ok(users.length > 0, `${name} is used`)
    t.same(
      users.filter(file => !new RegExp(`^${place}`).test(file)),
      [],
      name,
    )
  }
})

t.test('what is private to Node is used in src/runtime alone', async t => {
  const uses = /\b_(?:header|httpMessage|handle)\b|'internalMessage'|\bv8\b|'undici\/|setFlagsFromString/
  const users = sources.filter(({ text }) => uses.test(text.replace(/\/\*[^]*?\*\/|\/\/.*/g, ''))).map(({ file }) => file)
  t.ok(users.length >= 3, 'uses are found')
  t.same(
    users.filter(file => !file.startsWith('src/runtime/')),
    [],
  )
})

t.test('sockets of callers are known to the server alone, and to what it uses of Node', async t => {
  const servers = sources.filter(({ code }) => /\b(?:IncomingMessage|ServerResponse|createHttpServer|WebSocketServer)\b/.test(code))
  t.ok(servers.length > 0)
  t.same(
    servers.map(({ file }) => file).filter(file => !/^src\/(?:server|runtime)\//.test(file)),
    [],
  )
})

t.test('no file of src or plugins imports a test', async t => {
  t.same(
    forbiddenImports(sources, path => path.startsWith('src/') || path.startsWith('plugins/') || path === 'package.json'),
    [],
  )
})

t.test('imports go round in no circle', async t => {
  const graph = new Map(sources.map(({ file, imports }) => [file, imports]))
  t.same(findImportCycle(graph), [])
})

t.test('a start loads nothing that only some gateways need, or that can come later', async t => {
  const loaded = new Set<string>()
  const load = (file: string): void => {
    if (loaded.has(file)) return
    loaded.add(file)
    sources.find(source => source.file === file)?.staticImports.forEach(load)
  }
  for (const file of ['src/main.ts', 'src/cli/start.ts', 'plugins/index.ts', 'src/store/lmdb/lmdb-store.ts']) load(file)
  t.ok(
    ['yaml', 'koa', 'lmdb', 'src/server/ws-server.ts'].every(name => loaded.has(name)),
    'imports are found',
  )
  t.same(
    [
      ...['ajv', 'ws', 'koa-bodyparser', '@koa/router', 'koa-session', '@redis/client', '@opentelemetry/api'],
      ...['src/cluster/primary.ts', 'plugins/verify/index.ts', 'plugins/verify/proofs.ts'],
    ].filter(name => loaded.has(name)),
    [],
  )
})

t.test('time is read in one place', async t => {
  t.same(filesMatching(/\bDate\.now\(|\bnew Date\(\)|\bperformance\.now\(/, ['src/services/clock.ts']), [])
})

t.test('types are never switched off', async t => {
  t.same(filesMatching(/(?<![.\w])any\b(?!\s*[(:])/), [])
  t.same(
    sources.filter(({ text }) => /@ts-(?:ignore|nocheck)/.test(text)).map(({ file }) => file),
    [],
  )
})

/**
 * Words that must not come back into names of files and of exports: metaphors, which need a dictionary, and everyday words
 * where the field has a term.
 */
const forbiddenWords = new Set(
  (
    'agents bare beaten belief books claim crew desk door doors drift elsewhere epoch era familiar feel gate hangs haste hear hearer ' +
    'inert keeper kept lane lanes lazily leftovers lend lent misuse odd outdone outline outside patience plant polite pulse purse ' +
    'remembering retell said sheet sheets shift sentence standing stranger strangers talker tell teller tells tidy told trip truth ' +
    'verdict visit voyage weather whole witness'
  ).split(' '),
)

/** `ChunkedBytes` and `chunked-bytes` are the words `chunked` and `bytes`. */
const wordsOf = (name: string): readonly string[] =>
  name
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .split(/[^A-Za-z0-9]+/)
    .map(word => word.toLowerCase())

const exportPattern = /^export (?:(?:abstract|async|declare) )*(?:const|class|function|interface|type|enum) (\w+)/gm

/** The names of a file and of its exports. */
const namesIn = ({ file, code }: SourceFile): readonly string[] => [
  file.replace(/\.tsx?$/, ''),
  ...Array.from(code.matchAll(exportPattern), ([, name = '']) => name),
]

t.test('files and exports are named by terms, not by metaphors', async t => {
  const files = readSourceFiles(['src', 'plugins', 'test'])
  t.ok(files.flatMap(namesIn).includes('openGateway'), 'names are found')
  const misnamed = files.flatMap(source =>
    namesIn(source).flatMap(name =>
      wordsOf(name)
        .filter(word => forbiddenWords.has(word))
        .map(word => `${source.file}: ${word} in ${name}`),
    ),
  )
  t.same(misnamed, [])
})

/** The types, classes and interfaces of a file; those within a function are its own. */
const typesIn = ({ code }: SourceFile): readonly string[] =>
  Array.from(code.matchAll(/^(?:export )?(?:declare )?(?:abstract )?(?:type|interface|class|enum) (\w+)/gm), ([, name = '']) => name)

/** `name: files` for each type that several files declare. */
const duplicateTypes = (files: readonly SourceFile[]): readonly string[] => {
  const declaringFiles = new Map<string, string[]>()
  for (const source of files) {
    for (const name of typesIn(source)) declaringFiles.set(name, [...(declaringFiles.get(name) ?? []), source.file])
  }
  return [...declaringFiles].flatMap(([name, found]) => (found.length === 1 ? [] : [`${name}: ${found.join(', ')}`]))
}

t.test('a test file that node runs by itself has the time of .taprc', async t => {
  const files = readSourceFiles(['test']).filter(({ file }) => file.endsWith('.test.ts'))
  const withoutTime = files.filter(({ staticImports }) => staticImports.includes('tap') || !staticImports.includes('test/support/tap.ts'))
  t.same(
    withoutTime.map(({ file }) => file),
    [],
    'import `t` from test/support/tap.ts',
  )
})

t.test('no two types have one name, those of the page included', async t => {
  const files = readSourceFiles(['src', 'plugins'])
  t.ok(files.flatMap(typesIn).includes('ChunkedBytes'), 'types are found')
  t.same(duplicateTypes(files), [])
})

t.test('the name of a numeric constant says its unit, or what it limits', async t => {
  t.same(findUnitlessConstants(sources), [])
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
