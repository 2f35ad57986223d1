import type { Json } from '../../plugin/call.ts'
import type { ErrorCategory } from '../../plugin/reply.ts'
import type { CachePolicy, ResultKind } from './index.ts'

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

/** One entry of `methods` in the file. */
export interface MethodEntry {
  readonly params?: readonly PositionEntry[]
  readonly cost?: number
  readonly cache?: CachePolicy
  readonly class?: string
  readonly idempotent?: boolean
  readonly answer?: { readonly from: 'chainId' | 'networkId' | 'clientVersion' } | { readonly value: Json }
  readonly maxResults?: number
  readonly maxTime?: string
  readonly result?: ResultKind
  readonly blockParam?: number
  readonly splittable?: boolean
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
  readonly errors?: readonly ErrorPattern[]
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
