import type { Path } from '../../plugin.ts'
import { changeTable } from './change.ts'
import { entryCompiler } from './compile.ts'
import type { Compiled, Table } from './compile.ts'
import { errorComplaints, errorReader } from './errors.ts'
import type { Method, Methods } from './index.ts'
import type { Entry, TableFile } from './language.ts'
import { spell } from './sentence.ts'
import type { Complaint } from './sentence.ts'
import { shapeComplaints } from './shape.ts'

export type { Table } from './compile.ts'

/** What is wrong at a place of a methods file. */
export interface TableFault {
  readonly path: Path
  readonly message: string
  /** What may have been meant. */
  readonly hint?: string
}

/** What a method table must know of its network. */
export interface TableNetwork {
  readonly name: string
  readonly chainId: number
  /** The gateway's own, for `clientVersion`. */
  readonly version: string
}

/** Checks and compiles what a methods file says; never throws. Without faults there is a table. */
export const compileTable = (data: unknown): { readonly table: Table | undefined; readonly faults: readonly TableFault[] } => {
  const complaints: Complaint[] = []
  const table = readTable(data, complaints)
  const faults = complaints.map(({ path, said, hint }) => ({
    path,
    message: `${spell('', path)}${said}`.trimStart(),
    ...(hint !== undefined && { hint }),
  }))
  return { table: faults.length > 0 ? undefined : table, faults }
}

/** The methods as one network offers them. */
export const openMethods = (table: Table, network: TableNetwork): Methods => {
  const methods = new Map([...table.entries].map(([name, compiled]) => [name, methodOf(name, compiled, network)]))
  return {
    get: name => methods.get(name),
    names: table.names,
    defaultCost: table.defaultCost,
    meaning: table.readError,
    with: (overrides, tags) => openMethods(changeTable(table, { overrides, tags }, network.name), network),
  }
}

/** In steps, each only when the one before found nothing: the shape, the named types, the methods. */
const readTable = (data: unknown, complaints: Complaint[]): Table | undefined => {
  const file = copyOf(data)
  const holdsItself: Complaint = { path: [], said: 'the table is not plain data: a part of it holds itself' }
  complaints.push(...(file === undefined ? [holdsItself] : shapeComplaints(file, 'table')))
  if (complaints.length > 0) return undefined
  const { methods, errors = [], ...basis } = file as TableFile // its shape has just been checked
  const report = (complaint: Complaint) => void complaints.push(complaint)
  const compiler = entryCompiler(basis, report)
  if (complaints.length > 0) return undefined
  const entries = new Map<string, Compiled>()
  for (const [name, entry] of Object.entries(methods)) {
    const compiled = compiler.compile(name, entry, ['methods', name], report)
    if (compiled !== undefined) entries.set(name, compiled)
  }
  errorComplaints(errors, Object.keys(methods)).forEach(report)
  const names = [...entries.keys()]
  return { names, defaultCost: basis.defaults.cost, entries, readError: errorReader(errors), compiler }
}

/** A copy that nobody else can change; undefined when YAML aliases have made it a circle. */
const copyOf = (data: unknown): unknown => {
  try {
    return JSON.parse(JSON.stringify(data) ?? 'null')
  } catch {
    return undefined
  }
}

const methodOf = (name: string, { settings, entry, check }: Compiled, network: TableNetwork): Method => ({
  name,
  ...settings,
  ...(entry.answer && { answer: Buffer.from(JSON.stringify(answerOf(entry.answer, network))) }),
  check,
})

const answerOf = (answer: NonNullable<Entry['answer']>, { chainId, version }: TableNetwork): unknown => {
  if ('value' in answer) return answer.value
  switch (answer.is) {
    case 'chainId':
      return `0x${chainId.toString(16)}`
    case 'networkId':
      return String(chainId)
    case 'clientVersion':
      return `Tollgate/${version}`
  }
}
