import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { compileTable } from '../services/method-table/compile-table.ts'
import { isJsonObject } from '../util/json.ts'
import { yamlBaseNames } from './config-files.ts'
import { readYamlFile } from './yaml-file.ts'

/** The build writes it; without it, and for a table that was edited since, the YAML is parsed. */
const defaultFile = fileURLToPath(new URL('parsed-tables.json', import.meta.url))

/**
 * The value of a method table by its text, for texts that were parsed and checked at build time: YAML of that size takes 40 ms to
 * parse, a tenth of a start. Undefined for any other text.
 */
export const findParsedTable = (path: string, file = defaultFile): unknown => {
  try {
    const tables: unknown = JSON.parse(readFileSync(file, 'utf8'))
    return isJsonObject(tables) ? tables[hashOf(readFileSync(path))] : undefined
  } catch {
    return undefined // the reader of the YAML file reports what is wrong
  }
}

/** Parses and checks the method tables in a configuration directory for findParsedTable(); leaves out tables with problems. */
export const writeParsedTables = (configDir: string, file = defaultFile): void => {
  const tables = yamlBaseNames(join(configDir, 'methods')).flatMap(name => {
    const path = join(configDir, 'methods', `${name}.yaml`)
    const { value, problems } = readYamlFile(path)
    return problems.length > 0 || compileTable(value).issues.length > 0 ? [] : [[hashOf(readFileSync(path)), value]]
  })
  writeFileSync(file, JSON.stringify(Object.fromEntries(tables)))
}

const hashOf = (text: Buffer): string => createHash('sha256').update(text).digest('hex')
