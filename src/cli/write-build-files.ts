// Run by the build: writes what starts and commands would else parse, compile and read from many files each time.
import { chmodSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'
import type { OutputChunk, Plugin } from 'rolldown'
import { gatewaySchema } from '../config/gateway-options.ts'
import { networkSchema } from '../config/network-options.ts'
import { writeParsedTables } from '../config/method-tables.ts'
import { optionSchemas } from '../config/option-schemas.ts'
import { toJsonSchema } from '../config/schema.ts'
import { operations } from '../portal/operations/index.ts'
import { operatorRoutes } from '../portal/operator/operator-app.ts'
import { routes as portalRoutes } from '../portal/portal-app.ts'
import { useStepSchema } from '../config/steps.ts'
import { ajvSchemaOf, ruleSchemas } from '../services/method-table/check-params.ts'
import { caseFileSchema } from '../testing/case-schema.ts'
import { loadBuiltInPlugins } from './built-in-plugins.ts'
import { unicodeEscape } from '../util/printable-text.ts'

const dist = fileURLToPath(new URL('../../', import.meta.url))
const bundleDir = join(dist, 'bundle')
const entry = (file: string): string => join(dist, 'src', file)

/** As an import of a file in the bundle has it. */
const importPath = (file: string): string => relative(bundleDir, file).replaceAll(sep, '/')

/**
 * Packages that every start loads, and those that are ES modules only, which not every Node.js version can require. All others stay where
 * npm installs them: most have native parts, or are loaded by few gateways.
 */
const bundledPackages = ['ajv', 'koa', 'pino', 'yaml', '@noble/hashes', 'lru-cache', 'opossum', 'ws', 'jose', 'openid-client']

/**
 * The program with the packages that it starts with, as CommonJS modules: a start reads 60 files in place of 560, one directly after the
 * other. Plugins import `tollgate/plugin` from the bundle, too, and so the same classes and tables.
 */
const writeBundle = async (): Promise<void> => {
  const bundle = await rolldown({
    input: { main: entry('main.js'), plugin: entry('plugin/plugin.js'), ajv: 'ajv' },
    platform: 'node',
    external: isUnbundledPackage,
    transform: { define: { isBundle: 'true' } },
    logLevel: 'silent',
    plugins: [keepImport, keepUrls, jsonAsText, recordImports],
  })
  rmSync(bundleDir, { recursive: true, force: true })
  const { output } = await bundle.write({
    dir: bundleDir,
    format: 'cjs',
    sourcemap: true,
    comments: false, // half of the text, which stays in memory
    chunkFileNames: '[name]-[hash].js',
    dynamicImportInCjs: false, // see keepImport
    codeSplitting: { groups: chunkGroups },
  })
  for (const { fileName } of output) if (fileName.endsWith('.js')) escapeNonAscii(join(bundleDir, fileName))
  chmodSync(join(bundleDir, 'main.js'), 0o755)
  writeFileSync(join(bundleDir, 'package.json'), '{ "type": "commonjs" }\n')
  writeFileSync(join(bundleDir, importFile), 'exports.importModule = url => import(url)\n')
  writeFileSync(join(bundleDir, 'LICENSES.txt'), licensesOf(output.flatMap(moduleIdsOf)))
}

const { dependencies } = JSON.parse(readFileSync(join(dist, '../package.json'), 'utf8')) as { dependencies: Record<string, string> }

const isUnbundledPackage = (id: string): boolean =>
  Object.keys(dependencies).some(name => !bundledPackages.includes(name) && (id === name || id.startsWith(`${name}/`)))

const moduleIdsOf = (file: { readonly type: 'asset' } | OutputChunk): readonly string[] => (file.type === 'chunk' ? file.moduleIds : [])

/** What each file of the bundle imports at once. */
const imports = new Map<string, readonly string[]>()

const recordImports: Plugin = {
  name: 'record-imports',
  moduleParsed: ({ id, importedIds }) => void imports.set(id, importedIds),
}

/** Modules of dist/src, and all that they import at once. */
const modulesOf = (files: readonly string[]): ReadonlySet<string> => {
  const modules = new Set(files.map(entry))
  // A Set that grows while it is iterated passes on what was added.
  for (const id of modules) for (const imported of imports.get(id) ?? []) modules.add(imported)
  return modules
}

/**
 * What a start loads is in four files, each of which needs those before it: what every command loads, what reads gateway.yaml and the
 * store, what reads the rest of the configuration, and what serves.
 */
const layers = {
  command: ['main.js'],
  store: ['cli/operations.js', 'portal/operations/account-operations.js', 'store/lmdb/lmdb-store.js'],
  'network-config': ['cli/check.js', '../plugins/index.js'],
  start: ['cli/start.js', '../plugins/index.js', 'store/lmdb/lmdb-store.js'],
}

const isInLayer = (layer: string, id: string): boolean => {
  // Rolldown asks once it has read all files.
  modulesOfLayers ??= new Map(Object.entries(layers).map(([name, files]) => [name, modulesOf(files)]))
  return modulesOfLayers.get(layer)?.has(id) === true
}

let modulesOfLayers: ReadonlyMap<string, ReadonlySet<string>> | undefined

const chunkGroups = Object.keys(layers).map((name, index, { length }) => ({
  name,
  test: (id: string) => isInLayer(name, id) && isInLayer('start', id),
  priority: length - index,
}))

/** One other character makes V8 keep two bytes for each of a file: 6 MB of a gateway at rest. They stand in strings and patterns alone. */
const escapeNonAscii = (file: string): void => {
  const code = readFileSync(file, 'utf8')
  writeFileSync(file, code.replace(/[^\0-\x7f]/g, unicodeEscape))
}

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

/** V8 reads a big value faster as a string of JSON: koa needs the names of 2,000 media types. */
const jsonAsText: Plugin = {
  name: 'json-as-text',
  load(id) {
    if (!id.endsWith('.json')) return null
    const text = JSON.stringify(JSON.parse(readFileSync(id, 'utf8')))
    return { code: `module.exports = JSON.parse(${JSON.stringify(text)})`, moduleType: 'js' }
  },
}

/** The licenses of the packages that these modules are of. */
const licensesOf = (moduleIds: readonly string[]): string => {
  const folders = new Set(moduleIds.flatMap(id => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id)?.[0] ?? []))
  return [...folders].sort().map(licenseOf).join('\n')
}

const licenseOf = (folder: string): string => {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Record<string, string>
  const files = readdirSync(folder).filter(file => /^(?:licen[cs]e|notice)/i.test(file))
  return [`== ${name} ${version} (${license})`, '', ...files.map(file => readFileSync(join(folder, file), 'utf8'))].join('\n')
}

const plugins = await loadBuiltInPlugins()
const tables = writeParsedTables(fileURLToPath(new URL('../../../configs', import.meta.url)))
const rules = tables.flatMap(({ entries }) => [...entries.values()].flatMap(({ positions = [] }) => positions.map(({ rule }) => rule)))
ruleSchemas.write(rules.map(ajvSchemaOf))
const inputs = [
  ...operations.map(({ input }) => input),
  ...[...operatorRoutes, ...portalRoutes].flatMap(({ query, body }) => [query, body]),
]
const schemas = [
  ...[gatewaySchema, networkSchema, useStepSchema, caseFileSchema, ...plugins.map(({ options }) => options)],
  ...inputs.filter(schema => schema !== undefined),
]
optionSchemas.write(schemas.map(toJsonSchema))
await writeBundle()
