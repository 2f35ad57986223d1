import { readFileSync } from 'node:fs'
import { parse } from 'yaml'
import type { Json } from '../../../src/plugin/call.ts'
import type { MethodTable } from '../../../src/services/index.ts'
import { compileTable, openMethodTable } from '../../../src/services/method-table/compile-table.ts'
import type { CompiledTable } from '../../../src/services/method-table/table-types.ts'

const file = new URL('../../../../configs/methods/ethereum.yaml', import.meta.url)

/** configs/methods/ethereum.yaml, parsed. */
export const shippedData = (): unknown => parse(readFileSync(file, 'utf8'))

export const tableOf = (data: unknown): CompiledTable => {
  const { table, issues } = compileTable(data)
  if (table === undefined) throw new Error(issues.map(issue => issue.message).join('; '))
  return table
}

export const devnet = { name: 'devnet', chainId: 31337, version: '1.2.3' }

export const shippedTable = tableOf(shippedData())

export const shippedMethods = openMethodTable(shippedTable, devnet)

/** The normalized parameters, or the issue. */
export const check = (name: string, params: readonly Json[], methods: MethodTable = shippedMethods): Json => {
  const method = methods.get(name)
  if (method === undefined) throw new Error(`${name} is not in the table`)
  const checked = method.check(params)
  return 'issue' in checked ? checked.issue : checked.params
}

export const isRefused = (name: string, params: readonly Json[]): boolean => typeof check(name, params) === 'string'

/** The same byte, repeated. */
export const hex = (bytes: number, byte = 'ab'): string => `0x${byte.repeat(bytes)}`
