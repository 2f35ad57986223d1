import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import {
  findListEntries,
  findSingleImporterFiles,
  findUnitlessConstants,
  minListEntries,
  readSourceFiles,
  rootDir,
} from './source-files.ts'
import type { SingleImporterFile } from './source-files.ts'

// npm run stats [-- --json]: the size and the shape of src and plugins, without tests. An import for types counts as one, and so does one that
// is made later (`await import`); imports by tests do not. biome.json sets the limits of files and functions.

const folders = ['src', 'plugins']

/** What exceeds the limit of this rule of Biome, as `file:line (lines)`; also where `npm run lint` ignores the rule. */
const findExcesses = (rule: string): readonly string[] => {
  const biome = join(rootDir, 'node_modules/@biomejs/biome/bin/biome')
  const { stdout, stderr } = spawnSync(
    process.execPath,
    [biome, 'lint', `--only=${rule}`, '--reporter=json', '--max-diagnostics=none', ...folders],
    { cwd: rootDir, encoding: 'utf8' },
  )
  if (!stdout.startsWith('{')) throw new Error(`biome failed: ${stderr}`)
  const { diagnostics } = JSON.parse(stdout) as { diagnostics: readonly BiomeDiagnostic[] }
  return diagnostics.map(({ message, location: { path, start } }) => `${path}:${start.line} (${/\((\d+)\)/.exec(message)?.[1]} lines)`)
}

/** Only the members that are read here. */
interface BiomeDiagnostic {
  readonly message: string
  readonly location: { readonly path: string; readonly start: { readonly line: number } }
}

const sources = readSourceFiles(folders)
const singleImporterFiles = findSingleImporterFiles(sources)

const formatImport = ({ file, importer }: SingleImporterFile): string => `${file} <- ${importer}`

const stats = {
  sourceFiles: sources.length,
  lines: sources.reduce((sum, { text }) => sum + text.split('\n').length - 1, 0),
  singleImporterFiles: singleImporterFiles.map(formatImport),
  /** Some of the files before. */
  listEntryFiles: findListEntries(singleImporterFiles).map(formatImport),
  longFiles: findExcesses('style/noExcessiveLinesPerFile'),
  longFunctions: findExcesses('complexity/noExcessiveLinesPerFunction'),
  unitlessConstants: findUnitlessConstants(sources),
}

const formatList = (title: string, items: readonly string[]): string =>
  [`${title}: ${items.length}`, ...items.map(item => `  ${item}`)].join('\n')

const { values } = parseArgs({ options: { json: { type: 'boolean', default: false } } })
if (values.json) console.log(JSON.stringify(stats))
else {
  console.log(
    [
      `source files: ${stats.sourceFiles} (${stats.lines} lines)`,
      formatList('files with a single importer', stats.singleImporterFiles),
      formatList(
        `of these, entries of a list (the importer imports ${minListEntries} or more files that nobody else imports)`,
        stats.listEntryFiles,
      ),
      formatList('files over the limit of lines', stats.longFiles),
      formatList('functions over the limit of lines', stats.longFunctions),
      formatList('numeric constants without unit or bound', stats.unitlessConstants),
    ].join('\n\n'),
  )
}
