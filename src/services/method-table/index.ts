import type { Json } from '../../plugin/call.ts'
import type { ErrorCategory, RpcError } from '../../plugin/reply.ts'

/**
 * How long a result may be cached; an error, `null` and anything pending never are.
 * `never`: neither cached nor shared, each call reaches a node. `latest`: until there is a newer block.
 * `block`: as long as the block that the parameters name. `mined`: as long as the block that the result names.
 */
export type CachePolicy = 'never' | 'latest' | 'block' | 'mined'

/**
 * `word`: a word of 32 bytes; a shorter result is padded with zeros on the left (contract 4.2).
 * `blockNumber`: the number of the newest block; the number reported to callers never decreases.
 */
export type ResultKind = 'word' | 'blockNumber'

/** Parameters that passed their rules, normalised (hex in lower case, defaults filled in); or what broke which rule. */
export type CheckedParams = { readonly params: readonly Json[] } | { readonly issue: string }

/** One entry of the method table, ready to use. */
export interface Method {
  readonly name: string
  /** Credits of one call. */
  readonly cost: number
  readonly cache: CachePolicy
  /** Calls of one class share a breaker: heavy ones must not take the light ones down with them. */
  readonly class: string
  /** May the call be sent again after a failure that leaves open whether the node acted on it? */
  readonly idempotent: boolean
  /** Contract section 8: most results of one query. */
  readonly maxResults?: number
  /** Contract section 8: longest a query may run, in ms; past it the answer is `query timeout exceeded`. */
  readonly maxTime?: number
  readonly result?: ResultKind
  /** The position in params of the block, or of the filter over blocks: see blockSelectorOf(). */
  readonly blockParam?: number
  /** params[0] is a filter and the result is logs: the call can be sent in chunks to a node with a smaller limit. */
  readonly splittable?: boolean
  /** The result as JSON text, when no node is needed. */
  readonly answer?: Uint8Array
  check(params: readonly Json[], strict: boolean): CheckedParams
}

/** What a network's file changes in one entry of the table; `false`: the method is not offered here. */
export type MethodOverride = false | { readonly [field: string]: Json }

/** The method table of a network. Nothing about a method stands anywhere else. */
export interface MethodTable {
  get(name: string): Method | undefined
  /** The names offered, in the order of the table. */
  readonly names: readonly string[]
  /** Credits for a method that is not in the table. */
  readonly defaultCost: number
  /** What a node's error to a call of this method means, in whatever words; undefined when its words are not known. */
  errorCategory(error: RpcError, method: string): ErrorCategory | undefined
  /** The same table with entries changed; throws misconfigured() with paths that start at the method's name. */
  with(overrides: Readonly<Record<string, MethodOverride>>, tags: Readonly<Record<string, readonly string[]>>): MethodTable
}
