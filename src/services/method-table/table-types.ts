import type { Json } from '../../plugin/call.ts'
import type { ErrorCategory } from '../../plugin/error-table.ts'
import type { Path } from '../../util/json.ts'
import type { CheckedParams, Method, MethodTable } from './index.ts'

export type JsonType = 'string' | 'integer' | 'number' | 'boolean' | 'array' | 'object' | 'null'

/** What a value must be: JSON Schema, and the keywords that docs/reference/methods.md explains. */
export interface Rule {
  readonly ref?: string
  readonly title?: string
  readonly type?: JsonType | readonly JsonType[]
  readonly label?: string
  readonly hex?: string | readonly string[]
  readonly tags?: readonly string[]
  readonly default?: Json
  readonly example?: Json
  readonly enum?: readonly Json[]
  readonly items?: Rule
  readonly properties?: Readonly<Record<string, Rule>>
  readonly additionalProperties?: boolean | Rule
  readonly required?: readonly string[]
  readonly alias?: Readonly<Record<string, string>>
  readonly excludes?: Readonly<Record<string, readonly string[]>>
  readonly exactlyOne?: readonly string[]
  readonly ordered?: Readonly<Record<string, string>>
  readonly maxTotal?: { readonly of: readonly string[]; readonly limit: number }
  readonly minimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly minItems?: number
  readonly maxItems?: number
  readonly maxProperties?: number
  /** Tags of the table that a network does not support, and where: `eth_getLogs on linea-mainnet`. Not for files. */
  readonly unsupportedTags?: { readonly tags: readonly string[]; readonly where: string }
}

/** The rule of one position in `params`. */
export interface PositionEntry extends Rule {
  readonly title: string
  readonly optional?: boolean | 'unless strict'
}

/** What a method is besides its name, its parameters and its answer. */
type MethodSettings = Omit<Method, 'name' | 'answer' | 'discovers' | 'check' | 'describeParams' | 'waitMs'>

/** One entry of `methods` in the file. */
export interface MethodEntry extends Partial<Omit<MethodSettings, 'maxTime' | 'maxWait'>> {
  readonly params?: readonly PositionEntry[]
  readonly answer?: { readonly from: 'chainId' | 'networkId' | 'clientVersion' | 'openRpc' } | { readonly value: Json }
  /** Such as `10s`. */
  readonly maxTime?: string
  /** The same. */
  readonly maxWait?: string
}

/** One entry of `errors`: messages of nodes, and their category. */
export interface ErrorPattern {
  readonly category: ErrorCategory
  readonly code?: number | readonly number[]
  /** A piece of the message, in any case; `*` matches any text. */
  readonly message?: string | readonly string[]
  readonly methods?: readonly string[]
}

/** A file of configs/methods/. */
export interface TableFile {
  /** Fields of methods that do not set them. */
  readonly defaults: Required<Pick<MethodEntry, 'cost' | 'cache' | 'class' | 'idempotent'>>
  readonly types?: Readonly<Record<string, Rule>>
  readonly methods: Readonly<Record<string, MethodEntry>>
  readonly heavyClasses?: readonly string[]
  readonly hedgedClasses?: readonly string[]
  readonly errors?: readonly ErrorPattern[]
}

/** Why a value is not valid. */
export interface Issue {
  /** From the value that was checked to the invalid one. */
  readonly path: Path
  /** Follows the path: ` must be ..., not ...`. */
  readonly message: string
  /** What was probably meant. */
  readonly hint?: string
}

export type ReportIssue = (issue: Issue) => void

/** The network of a method table. */
export interface NetworkIdentity {
  readonly name: string
  readonly chainId: number
  /** The version of the gateway, for `clientVersion`. */
  readonly version: string
}

/** A file of configs/methods/, checked and compiled; the same for all networks that refer to it. */
export interface CompiledTable {
  /** The methods, in the order of the file. */
  readonly names: readonly string[]
  /** The file, checked. */
  readonly source: TableFile
  /** Credits for a method that is not in the table. */
  readonly defaultCost: number
  readonly entries: ReadonlyMap<string, CompiledMethod>
  readonly heavyClasses: MethodTable['heavyClasses']
  readonly isHedgedClass: MethodTable['isHedgedClass']
  readonly errorCategory: MethodTable['errorCategory']
  readonly compiler: MethodCompiler
}

/** An entry of the table, ready for any network. */
export interface CompiledMethod {
  /** As in the file. */
  readonly entry: MethodEntry
  /** With the defaults of the file. */
  readonly settings: MethodSettings
  /** Undefined for a method whose parameters have no rules. */
  readonly positions: readonly ResolvedPosition[] | undefined
  readonly check: CheckParams
}

/** A position of `params` with its rule resolved. */
export interface ResolvedPosition {
  readonly title: string
  readonly optional: boolean | 'unless strict'
  readonly rule: Rule
}

export type CheckParams = (params: readonly Json[]) => CheckedParams

/** Compiles entries that have passed the schema. */
export interface MethodCompiler {
  /** Undefined after an issue of its rules was reported. */
  compile(name: string, entry: MethodEntry, path: Path, report: ReportIssue): CompiledMethod | undefined
  /** The same method with other rules for its positions. */
  withPositions(name: string, compiled: CompiledMethod, positions: CompiledMethod['positions']): CompiledMethod
}

/** The one type that each of these keywords applies to; the other keywords apply to any type. */
export const keywordTypes = {
  hex: 'string',
  tags: 'string',
  minLength: 'string',
  maxLength: 'string',
  items: 'array',
  minItems: 'array',
  maxItems: 'array',
  properties: 'object',
  additionalProperties: 'object',
  maxProperties: 'object',
  required: 'object',
  alias: 'object',
  excludes: 'object',
  exactlyOne: 'object',
  ordered: 'object',
  maxTotal: 'object',
} as const satisfies Partial<Record<keyof Rule, JsonType>>
