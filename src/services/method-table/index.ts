import type { Json } from '../../plugin/call.ts'
import type { ErrorCategory, RpcError } from '../../plugin/reply.ts'

/**
 * How long an answer may be kept. Never: an error, `null`, or anything pending.
 * `never`: neither kept nor shared, each call reaches a node. `head`: about the newest block.
 * `block`: about the block that the parameters name. `found`: about something mined, once it is found.
 */
export type CachePolicy = 'never' | 'head' | 'block' | 'found'

/** Parameters that passed their rules, normalised (hex in lower case, defaults filled in); or what broke which rule. */
export type CheckedParams = { readonly params: readonly Json[] } | { readonly issue: string }

/** One entry of the method table, ready to use. */
export interface Method {
  readonly name: string
  /** Credits of one call. */
  readonly cost: number
  readonly keep: CachePolicy
  /** Calls of one class share a breaker: heavy ones must not take the light ones down with them. */
  readonly class: string
  /** May the call be sent again after a failure that leaves open whether the node acted on it? */
  readonly resend: boolean
  /** Contract section 8: most results of one query. */
  readonly maxResults?: number
  /** Contract section 8: longest a query may run, in ms; past it the answer is `query timeout exceeded`. */
  readonly maxTime?: number
  /** The result is a word of 32 bytes; a shorter one is left-padded with zeros (contract 4.2). */
  readonly word?: boolean
  /** The result is the number of the newest block: what callers are told never goes back. */
  readonly height?: boolean
  /** The position in params of the block, or of the filter over blocks: see blocksOf(). */
  readonly at?: number
  /** Its parameter is a filter and its result logs: it may be asked in pieces where a node takes no more. */
  readonly split?: boolean
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
