import { chmodSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'
import type { OutputChunk, Plugin } from 'rolldown'
import { getOrCreate } from '../util/memoize.ts'

const dist = fileURLToPath(new URL('../../', import.meta.url))
const bundleDir = join(dist, 'bundle')
const entry = (file: string): string => join(dist, 'src', file)

/** As an import of a file in the bundle has it. */
const importPath = (file: string): string => relative(bundleDir, file).replaceAll(sep, '/')

/**
 * Packages that every start loads, and those that are ES modules only, which not every Node.js version can require. All others stay where
 * npm installs them: most have native parts, or are loaded by few gateways.
 */
const bundledPackages = ['ajv', 'koa', 'lmdb', 'pino', 'yaml', '@noble/hashes', 'lru-cache', 'opossum', 'ws', 'jose', 'openid-client']

/**
 * The program with the packages that it starts with, as CommonJS modules: a start reads 70 files in place of 560, one directly after the
 * other. Plugins import `tollgate/plugin` from the bundle, too, and so the same classes and tables.
 */
export const writeBundle = async (): Promise<void> => {
  const bundle = await rolldown({
    input: { main: entry('main.js'), plugin: entry('plugin/plugin.js'), ajv: 'ajv' },
    platform: 'node',
    external: isUnbundledPackage,
    transform: { define: { isBundle: 'true' } },
    logLevel: 'silent',
    plugins: [keepImport, keepUrls, fewMediaTypes, oneMimeTable, lmdbWithoutCodec, recordModules],
  })
  rmSync(bundleDir, { recursive: true, force: true })
  const { output } = await bundle.write({
    dir: bundleDir,
    format: 'cjs',
    sourcemap: true,
    comments: false, // half of the text, which stays in memory
    minify,
    chunkFileNames: '[name]-[hash].js',
    dynamicImportInCjs: false, // see keepImport
    codeSplitting: { groups: chunkGroups },
  })
  chmodSync(join(bundleDir, 'main.js'), 0o755)
  writeFileSync(join(bundleDir, 'package.json'), '{ "type": "commonjs" }\n')
  writeFileSync(join(bundleDir, importFile), 'exports.importModule = url => import(url)\n')
  writeFileSync(join(bundleDir, 'LICENSES.txt'), licensesOf(output.flatMap(moduleIdsOf)))
}

/**
 * A third less text, which stays in memory: 1 MB at rest. Functions and classes keep their names, for stacks and profiles; those of private
 * members are in the source maps alone. One character that is not ASCII makes V8 keep two bytes for each of a file: 6 MB.
 */
const minify = { compress: false, mangle: { keepNames: true }, codegen: { removeWhitespace: true, asciiOnly: true } }

const { dependencies } = JSON.parse(readFileSync(join(dist, '../package.json'), 'utf8')) as { dependencies: Record<string, string> }

const isUnbundledPackage = (id: string): boolean =>
  Object.keys(dependencies).some(name => !bundledPackages.includes(name) && (id === name || id.startsWith(`${name}/`)))

const moduleIdsOf = (file: { readonly type: 'asset' } | OutputChunk): readonly string[] => (file.type === 'chunk' ? file.moduleIds : [])

/** What each module of the bundle imports at once, and the length of its text. */
const modules = new Map<string, { readonly importedIds: readonly string[]; readonly length: number }>()

const recordModules: Plugin = {
  name: 'record-modules',
  moduleParsed: ({ id, importedIds, code }) => void modules.set(id, { importedIds, length: code?.length ?? 0 }),
}

/**
 * What a start loads, in the order of loading: what every command loads, what reads gateway.yaml and the store, what reads the rest of the
 * configuration, and what serves.
 */
const layers = {
  command: ['main.js'],
  store: ['cli/operations.js', 'portal/operations/account-operations.js', 'store/lmdb/lmdb-store.js'],
  'network-config': ['cli/check.js', '../plugins/index.js'],
  start: ['cli/start.js', '../plugins/index.js', 'store/lmdb/lmdb-store.js'],
}

/**
 * The C library keeps what V8 needed to compile the largest file, and what Node.js needed to read it: a gateway at rest has 5 MB less with
 * files of this length than with one of 1 MB. With comments, which the bundle does not have.
 */
const maxFileChars = 131_072

/** Undefined for a module of our own. */
const packageFolderOf = (id: string): string | undefined => /^.*[\\/]node_modules[\\/](?:@[^\\/]+[\\/])?[^\\/]+/.exec(id)?.[0]

/** Packages stay whole: their modules may need each other. */
const packageOf = (id: string): string => packageFolderOf(id) ?? id

const newList = (): string[] => []

/** All that these files of dist/src import at once, as packages and modules, each after those that it needs. */
const loadOrderOf = (files: readonly string[]): readonly (readonly string[])[] => {
  const reached = new Set(files.map(entry))
  // A Set that grows while it is iterated passes on what was added.
  for (const id of reached) for (const imported of modules.get(id)?.importedIds ?? []) if (modules.has(imported)) reached.add(imported)
  const byPackage = new Map<string, string[]>()
  for (const id of reached) getOrCreate(byPackage, packageOf(id), newList).push(id)
  const order = new Set<readonly string[]>()
  const begun = new Set<string>()
  const visit = (name: string): void => {
    const ids = byPackage.get(name)
    if (ids === undefined || begun.has(name)) return
    begun.add(name)
    for (const id of ids) for (const imported of modules.get(id)!.importedIds) visit(packageOf(imported))
    order.add(ids)
  }
  for (const file of files) visit(packageOf(entry(file)))
  return [...order]
}

/** What the module is in: the file of that name, which needs only files before it. Rolldown asks once it has read all modules. */
const assignFiles = (): ReadonlyMap<string, { readonly name: string; readonly index: number }> => {
  const loadedByStart = new Set(loadOrderOf(layers.start).flat())
  const fileOf = new Map<string, { readonly name: string; readonly index: number }>()
  let index = 0
  for (const [layer, files] of Object.entries(layers)) {
    let chars = 0
    for (const ids of loadOrderOf(files)) {
      const added = ids.filter(id => loadedByStart.has(id) && !fileOf.has(id))
      const length = added.reduce((sum, id) => sum + modules.get(id)!.length, 0)
      if (chars > 0 && chars + length > maxFileChars) {
        index += 1
        chars = 0
      }
      chars += length
      for (const id of added) fileOf.set(id, { name: `${layer}-${index}`, index })
    }
    index += 1
  }
  if (index > maxFiles) throw new Error(`a start loads ${index} files: raise maxFiles`)
  return fileOf
}

let assignedFiles: ReturnType<typeof assignFiles> | undefined
const fileOf = (id: string) => (assignedFiles ??= assignFiles()).get(id)

/** Of the bundle, that a start loads. Rolldown wants the groups before it knows the modules. */
const maxFiles = 100

const chunkGroups = Array.from({ length: maxFiles }, (_, index) => ({
  name: (id: string) => fileOf(id)?.name ?? null,
  test: (id: string) => fileOf(id)?.index === index,
  priority: maxFiles - index,
}))

const importFile = 'import-module.js'

/** import-module.ts is a file of its own: everywhere else, import() becomes require(), which loads the files of the bundle at once. */
const keepImport: Plugin = {
  name: 'keep-import',
  resolveId: id => (id.endsWith('/runtime/import-module.js') ? { id: `./${importFile}`, external: true } : null),
}

/** Files beside a module, and packages that it requires, are found from the place of the module, not from that of the bundle; Ajv is in the bundle. */
const keepUrls: Plugin = {
  name: 'keep-urls',
  load(id) {
    if (!id.startsWith(dist)) return null
    const url = `new URL(${JSON.stringify(importPath(id))}, import.meta.url).href`
    return {
      code: readFileSync(id, 'utf8').replace("('ajv')", "('../../bundle/ajv.js')").replaceAll('import.meta.url', url),
      map: readFileSync(`${id}.map`, 'utf8'),
    }
  },
}

/**
 * What koa looks up in the table of media types: its own types of bodies. All other responses name their type in full. With all 2,500, and a V8 context
 * more, a gateway at rest had 0.5 MB more.
 */
const mediaTypes = ['application/json', 'application/octet-stream', 'text/html', 'text/plain']

const fewMediaTypes: Plugin = {
  name: 'few-media-types',
  load(id) {
    if (!id.endsWith(join('mime-db', 'db.json'))) return null
    const all = JSON.parse(readFileSync(id, 'utf8')) as Record<string, unknown>
    return { code: `module.exports = ${JSON.stringify(Object.fromEntries(mediaTypes.map(type => [type, all[type]])))}`, moduleType: 'js' }
  },
}

/** Koa's own table of media types serves `accepts`, which brings an older one: 0.6 MB of a gateway at rest. */
const oneMimeTable: Plugin = {
  name: 'one-mime-table',
  resolveId(id, importer) {
    return id === 'mime-types' && importer !== undefined && basename(packageOf(importer)) === 'accepts'
      ? this.resolve(id, entry('main.js'))
      : null
  },
}

/**
 * The JavaScript of lmdb without the codec of an encoding that no table of the store has: 0.5 MB of a gateway at rest. Its native part stays where npm
 * installs it, and is found from there.
 */
const lmdbWithoutCodec: Plugin = {
  name: 'lmdb-without-codec',
  resolveId: id => (id === 'msgpackr' ? codecId : null),
  load(id) {
    if (id === codecId) return 'export const Encoder = undefined'
    if (basename(packageOf(id)) !== 'lmdb') return null
    const code = readFileSync(id, 'utf8')
      .replace(
        /^import (\w+) from 'node-gyp-build-optional-packages';$/m,
        (_, name) => `const ${name} = lmdbRequire('node-gyp-build-optional-packages')`,
      )
      .replaceAll('import.meta.url', 'lmdbUrl')
    return `${lmdbPlace}\n${code}`
  },
}

const codecId = '\0msgpackr'

const lmdbPlace = `
import { createRequire as createRequireAt } from 'node:module'
import { pathToFileURL as toLmdbUrl } from 'node:url'
const lmdbUrl = toLmdbUrl(createRequireAt(import.meta.url).resolve('lmdb')).href
const lmdbRequire = createRequireAt(lmdbUrl)
`

/** The licenses of the packages that these modules are of. */
const licensesOf = (moduleIds: readonly string[]): string => {
  const folders = new Set(moduleIds.flatMap(id => packageFolderOf(id) ?? []))
  return [...folders].sort().map(licenseOf).join('\n')
}

const licenseOf = (folder: string): string => {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Record<string, string>
  const files = readdirSync(folder).filter(file => /^(?:licen[cs]e|notice)/i.test(file))
  return [`== ${name} ${version} (${license})`, '', ...files.map(file => readFileSync(join(folder, file), 'utf8'))].join('\n')
}
