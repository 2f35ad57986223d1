import { join } from 'node:path'
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { compileCheckedTable, compileTable } from '../services/method-table/compile-table.ts'
import type { CompiledTable } from '../services/method-table/table-types.ts'
import { didYouMean } from '../util/did-you-mean.ts'
import { isJsonObject } from '../util/json.ts'
import { displayPath, filesOnDisk, yamlBaseNames } from './config-files.ts'
import type { ConfigFiles } from './config-files.ts'
import type { Problem } from './problem.ts'
import { readYamlFile } from './yaml-file.ts'
import type { YamlFile } from './yaml-file.ts'

/** The method tables of one configuration directory; each is read once, however many networks use it. */
export interface MethodTables {
  /** The table that `methods` of the network's file refers to. Problems of the table come with the first call only. */
  read(network: YamlFile): { readonly table: CompiledTable | undefined; readonly problems: readonly Problem[] }
}

export const openMethodTables = (dir: string, files = filesOnDisk): MethodTables => {
  const names = yamlBaseNames(join(dir, 'methods'), files)
  const tableByName = new Map<string, CompiledTable | undefined>()

  const readTableFile = (name: string): readonly Problem[] => {
    const path = join(dir, 'methods', `${name}.yaml`)
    const parsed = findParsedTable(path, files)
    if (parsed === undefined) return parseTableFile(name, path)
    const { table, issues } = compileCheckedTable(parsed)
    tableByName.set(name, table)
    return issues.length > 0 ? parseTableFile(name, path) : []
  }

  const parseTableFile = (name: string, path: string): readonly Problem[] => {
    const source = readYamlFile(path, undefined, files)
    const { table, issues } = source.value === undefined ? { table: undefined, issues: [] } : compileTable(source.value)
    const problems = [...source.problems, ...issues.map(({ path, message, hint }) => source.problemAt(path, message, hint))]
    tableByName.set(name, problems.length === 0 ? table : undefined)
    return problems
  }

  return {
    read(network) {
      const name = network.textAt(['methods'])
      if (name === undefined) return { table: undefined, problems: [] }
      if (!names.includes(name)) return { table: undefined, problems: [unknownTableProblem(network, dir, names)] }
      const problems = tableByName.has(name) ? [] : readTableFile(name)
      return { table: tableByName.get(name), problems }
    },
  }
}

/** The methods in all tables of a directory, whatever other problems these have. */
export const declaredMethodNames = (dir: string): readonly string[] =>
  yamlBaseNames(join(dir, 'methods')).flatMap(name => {
    const methods = readYamlFile(join(dir, 'methods', `${name}.yaml`)).valueAt(['methods'])
    return isJsonObject(methods) ? Object.keys(methods) : []
  })

const unknownTableProblem = (network: YamlFile, dir: string, names: readonly string[]): Problem => {
  const path = ['methods']
  const message = `methods must name a file in ${displayPath(join(dir, 'methods'))}, not ${network.describeValueAt(path)}`
  const hint = names.length > 0 ? `known method tables: ${names.join(', ')}` : 'there are no method tables yet'
  return network.problemAt(path, message, didYouMean(network.textAt(path) ?? '', names) ?? hint)
}

/** The build writes it; without it, and for a table that was edited since, the YAML is parsed. */
const parsedTablesFile = fileURLToPath(new URL('parsed-tables.json', import.meta.url))

/**
 * The value of a method table by its text, for texts that were parsed and checked at build time: YAML of that size takes 40 ms to
 * parse, a tenth of a start. Undefined for any other text.
 */
export const findParsedTable = (path: string, files: ConfigFiles, file = parsedTablesFile): unknown => {
  try {
    const tables: unknown = JSON.parse(readFileSync(file, 'utf8'))
    return isJsonObject(tables) ? tables[hashOf(files.read(path))] : undefined
  } catch {
    return undefined // the reader of the YAML file reports what is wrong
  }
}

/**
 * Parses and checks the method tables in a configuration directory for findParsedTable(); leaves out tables with problems. Returns the tables
 * that it has written.
 */
export const writeParsedTables = (configDir: string, file = parsedTablesFile): readonly CompiledTable[] => {
  const parsed = yamlBaseNames(join(configDir, 'methods')).flatMap(name => {
    const path = join(configDir, 'methods', `${name}.yaml`)
    const { value, problems } = readYamlFile(path)
    const { table } = compileTable(value)
    return problems.length > 0 || table === undefined ? [] : [{ hash: hashOf(readFileSync(path)), value, table }]
  })
  writeFileSync(file, JSON.stringify(Object.fromEntries(parsed.map(({ hash, value }) => [hash, value]))))
  return parsed.map(({ table }) => table)
}

const hashOf = (text: Buffer): string => createHash('sha256').update(text).digest('hex')
