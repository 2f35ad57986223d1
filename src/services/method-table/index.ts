import type { Json } from '../../plugin/call.ts'
import type { ErrorCategory } from '../../plugin/error-table.ts'
import type { RpcError } from '../../plugin/reply.ts'

/**
 * How long a result may be cached; an error, `null` and anything pending never are.
 * `never`: neither cached nor shared, each call reaches a node. `latest`: until there is a newer block, for one poll interval at most.
 * `block`: as long as the block that the parameters name. `mined`: as long as the block that the result names.
 */
export type CachePolicy = 'never' | 'latest' | 'block' | 'mined'

/**
 * `word`: a word of 32 bytes; a shorter result is padded with zeros on the left, any other is a failure of the upstream (contract 4.2).
 * `blockNumber`: the number of the newest block; the number reported to callers never decreases.
 * The kinds from `quantity` on are types: a result of another type is a failure of the upstream.
 */
export const resultKinds = [
  ...(['word', 'blockNumber', 'block', 'transaction', 'receipt', 'receipts', 'logs'] as const),
  ...(['quantity', 'quantityOrNull', 'data', 'dataOrNull', 'hash', 'text', 'boolean'] as const),
  ...(['object', 'objectOrNull', 'array', 'arrayOrNull', 'any'] as const),
] as const

export type ResultKind = (typeof resultKinds)[number]

/**
 * Where a result says which mined block it is about. `block`: in its `number` and `hash`. `transaction`, as in a receipt: in its
 * `blockNumber` and `blockHash`. `logs`: in those of its last element.
 */
export type BlockReport = 'block' | 'transaction' | 'logs'

/** Parameters that passed their rules, normalized (hex in lower case, defaults added); or the rule that they break. */
export type CheckedParams = { readonly params: readonly Json[] } | { readonly issue: string }

/** One entry of the method table, ready to use. */
export interface Method {
  readonly name: string
  /** Credits of one call. */
  readonly cost: number
  readonly cache: CachePolicy
  /** Methods of one class share a circuit breaker per upstream: failing heavy calls must not stop light calls. */
  readonly class: string
  /** May the call be sent again when it is unknown whether the node has processed it? */
  readonly idempotent: boolean
  /** False when only a network that names the method offers it. */
  readonly offered?: boolean
  /** False when the call is for one node only, which signs, or which it changes at once: it is never sent to a second one. */
  readonly retryable?: boolean
  /** The result depends on the state of a block, which nodes that are no archives have only for recent blocks. */
  readonly readsState?: boolean
  /** Maximum number of results of one query (contract 8). */
  readonly maxResults?: number
  /** Maximum number of blocks from the first to the last of a query. */
  readonly maxBlocks?: number
  /** Maximum duration of a query in ms; above it the call fails with `query timeout exceeded` (contract 8). */
  readonly maxTime?: number
  /** For how long the node may wait for something before it answers, in ms: see waitMs(). */
  readonly maxWait?: number
  /** The position in params of the time that the caller lets the node wait, in ms. */
  readonly waitParam?: number
  readonly result?: ResultKind
  /** A caller who gets the result knows that block: later answers are never from before it. */
  readonly reports?: BlockReport
  /** The position in params of the block, or of the filter over blocks: see blockSelectorOf(). A method with `splittable` or `maxBlocks` has one. */
  readonly blockParam?: number
  /** params[0] is a filter and the result is logs: the call can be sent in chunks to a node with a smaller limit. */
  readonly splittable?: boolean
  /** It concerns state that the gateway keeps for its caller: it is never sent to a node. */
  readonly stateful?: boolean
  /** Credits of one block of a subscription, by its kind. */
  readonly eventCosts?: Readonly<Record<string, number>>
  /** The result as JSON text, for methods that the gateway answers itself. */
  readonly answer?: Uint8Array
  /** The result is the OpenRPC document of what the caller may call. */
  readonly discovers?: true
  check(params: readonly Json[]): CheckedParams
  /** How long the node may wait before it answers the call, in ms, which is no sign of its health; 0 for most methods. */
  waitMs(params: readonly Json[]): number
  /** The positions of `params`, for developers. */
  describeParams(): readonly ParamDescription[]
}

/** One position of `params`, for developers. */
interface ParamDescription {
  readonly title: string
  readonly optional: boolean
  /** What is accepted, in words. */
  readonly accepts: string
  readonly default?: Json
  /** A value as callers write it; it may name something that the network does not have. */
  readonly example: Json
  /** Of an object whose members are known. */
  readonly members?: readonly Pick<ParamDescription, 'title' | 'accepts' | 'example'>[]
}

/** A method, for developers. */
export interface MethodDescription {
  readonly name: string
  /** Credits of one call. */
  readonly credits: number
  /** How a plugin verifies its results. */
  readonly verification?: string
  /** Credits of one call with the header `Tollgate-Verify`, by its value; absent where they are the same. */
  readonly verifyCredits?: { readonly none: number; readonly proof: number }
  /** Credits of a subscription for each KiB of messages, by its kind. */
  readonly eventCredits?: Readonly<Record<string, number>>
  /** Above one of these a call fails; `blocks` is null for a query of blocks that the gateway does not limit, though its nodes may. */
  readonly limits?: { readonly results?: number; readonly blocks?: number | null; readonly ms?: number }
  /** In an outage a partner may answer, for plans with forwarding; `header`: only calls with `Enable-Failover: true`. */
  readonly forwarded?: 'outage' | 'header'
  readonly params: readonly ParamDescription[]
}

/** The changes of one network to one entry of the table; `false`: the network does not offer the method. */
export type MethodOverride = false | { readonly [field: string]: Json }

/** The method table of a network: all that is known of methods. */
export interface MethodTable {
  /** The entry of the method; undefined where the table has none. */
  get(name: string): Method | undefined
  /** The methods of the table, in its order; with() also removes those that the network does not offer. */
  readonly names: readonly string[]
  /** The same for two tables that differ in costs alone: what was cached with one table holds with the other. */
  readonly rulesId: string
  /** Credits for a method that is not in the table. */
  readonly defaultCost: number
  /** Classes whose calls callers can make as heavy as they like. */
  readonly heavyClasses: ReadonlySet<string>
  /** Whether a second node is requested for calls of this class that take longer than usual. */
  isHedgedClass(name: string): boolean
  /** The category of a node's error to a call of this method; undefined when no pattern matches. */
  errorCategory(error: RpcError, method: string): ErrorCategory | undefined
  /** The same table with entries changed; throws misconfigured() with paths that start at the method's name. */
  with(overrides: Readonly<Record<string, MethodOverride>>, tags: Readonly<Record<string, readonly string[]>>): MethodTable
  /**
   * The same table without the methods that have `offered: false`, except those that a pattern of `offer` names. Throws
   * Misconfigured, whose paths are positions in `offer`, for a pattern that changes nothing.
   */
  offering(offer: readonly string[]): MethodTable
  /** The same table, which requires the parameters that are optional `unless strict`. */
  strict(): MethodTable
  /** The OpenRPC document of these methods, as JSON text. */
  toOpenRpc(described: readonly MethodDescription[]): Uint8Array
}
