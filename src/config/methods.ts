import { join } from 'node:path'
import { compileTable } from '../services/methods/table.ts'
import type { Table } from '../services/methods/table.ts'
import { shownPath, yamlNames } from './files.ts'
import { didYouMean } from '../nearest.ts'
import { isMap } from './path.ts'
import type { Problem } from './problem.ts'
import { readSource } from './source.ts'
import type { Source } from './source.ts'
import { describeFound } from './words.ts'

/** The method tables of one configuration directory; each is read once, however many networks use it. */
export interface Tables {
  /** The table that the network's file names at `methods`. Its own problems come with the first call only. */
  read(network: Source): { readonly table: Table | undefined; readonly problems: readonly Problem[] }
}

export const openTables = (dir: string): Tables => {
  const names = yamlNames(join(dir, 'methods'))
  const known = new Map<string, Table | undefined>()

  const readNew = (name: string): readonly Problem[] => {
    const source = readSource(join(dir, 'methods', `${name}.yaml`))
    const { table, faults } = source.value === undefined ? { table: undefined, faults: [] } : compileTable(source.value)
    const problems = [...source.problems, ...faults.map(({ path, message, hint }) => source.problem(path, message, hint))]
    known.set(name, problems.length === 0 ? table : undefined)
    return problems
  }

  return {
    read(network) {
      const name = network.textAt(['methods'])
      if (name === undefined) return { table: undefined, problems: [] }
      if (!names.includes(name)) return { table: undefined, problems: [unknownTable(network, dir, names)] }
      const problems = known.has(name) ? [] : readNew(name)
      return { table: known.get(name), problems }
    },
  }
}

/** What the tables of a directory name, whatever else is wrong with them. */
export const methodNames = (dir: string): readonly string[] =>
  yamlNames(join(dir, 'methods')).flatMap(name => {
    const methods = readSource(join(dir, 'methods', `${name}.yaml`)).at(['methods'])
    return isMap(methods) ? Object.keys(methods) : []
  })

const unknownTable = (network: Source, dir: string, names: readonly string[]): Problem => {
  const path = ['methods']
  const message = `methods must name a file in ${shownPath(join(dir, 'methods'))}, not ${describeFound(network, path)}`
  const known = names.length > 0 ? `known are: ${names.join(', ')}` : 'there is none yet'
  return network.problem(path, message, didYouMean(network.textAt(path) ?? '', names) ?? known)
}
