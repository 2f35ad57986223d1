import type { Call, ContextKey, CallContext, Origin } from './call.ts'
import { didYouMean } from '../util/did-you-mean.ts'
import type { Failure, Reply } from './reply.ts'
import type { Infer, ObjectSchema } from './options-schema.ts'
import type { MethodTable, Services } from '../services/index.ts'

export { blockSelectorOf } from '../services/method-table/block-selector.ts'
export type { BlockSelector, BlockNumberOrTag } from '../services/method-table/block-selector.ts'
export * from './call.ts'
export * from './reply.ts'
export type * from './options-schema.ts'
export { memoizeFrozen } from '../util/frozen.ts'
export { getOrCreate } from '../util/get-or-create.ts'
export { parseHexQuantity, parseJsonHexQuantity, toHexQuantity } from '../util/hex-quantity.ts'
export { isJsonObject } from '../util/json.ts'
export type { JsonObject } from '../util/json.ts'
export { thenMaybe } from '../util/maybe-promise.ts'
export { onAbort } from '../util/on-abort.ts'
export { singleFlight } from '../util/single-flight.ts'
export { ChunkedBytes, toBuffer } from '../json/chunked-bytes.ts'
export type { RawJson } from '../json/chunked-bytes.ts'
export { CircuitBreaker } from '../services/circuit-breaker.ts'
export type { CallOutcome, CircuitBreakerOptions } from '../services/circuit-breaker.ts'
export { probeUpstream } from '../services/upstream-client/probe-upstream.ts'
export type { ProbeResult } from '../services/upstream-client/probe-upstream.ts'
export { RateLimitBackoff } from '../services/upstream-client/rate-limit-backoff.ts'
export { Cancellation, toAbortSignal } from './cancellation.ts'
export type { Signal } from './cancellation.ts'
export { Secret } from './secret.ts'
export { metricDefinitions } from '../services/metric-definitions.ts'
export { ChainIdCheck } from '../services/chain-heads/chain-id-check.ts'
export type * from '../services/index.ts'

/** The rest of the pipeline. Each call of it is a fresh run. */
export type Next<Writes extends ContextKey = never> = (call: Call<Writes>) => Promise<Reply>

/** What runs on every call. Refusals and faults are returned; it throws only because of a bug. */
export type Handler<Reads extends ContextKey = never, Writes extends ContextKey = never> = (
  call: Call<Reads>,
  next: Next<Reads | Writes>,
) => Promise<Reply>

/** A handler with a life of its own. The host starts stages inside out and stops them outside in. */
export interface Stage<Reads extends ContextKey = never, Writes extends ContextKey = never> {
  readonly handle: Handler<Reads, Writes>
  /**
   * Asked once per HTTP request before its body is read, and once per WebSocket upgrade: a failure is the whole answer,
   * with its HTTP status. Then every 400 ms, once for each key that has open sockets, with the origin of one of them: a
   * failure of the kind `key` closes them all, and no other counts.
   */
  admit?(origin: Origin): Failure | undefined | Promise<Failure | undefined>
  /** Returns quickly; rejecting stops the gateway from starting. */
  start?(): Promise<void>
  /** Safe without start(), and twice. */
  stop?(): Promise<void>
}

/** A place inside options: property names and list positions. */
export type Path = readonly (string | number)[]

/** Tells the operator what is wrong with the option at `path`: what was found, what was wanted. */
export type ReportProblem = (path: Path, message: string) => void

/** What a plugin's file exports by default, made with definePlugin(). */
export interface Plugin<S extends ObjectSchema = ObjectSchema, Reads extends ContextKey = never, Writes extends ContextKey = never> {
  /** kebab-case; also the file's name, and the key in a network file. */
  readonly name: string
  /** One sentence, shown by editors. */
  readonly summary: string
  /** Shape, defaults and wording of the options; their type follows from it. */
  readonly options: S
  /** Context keys that an earlier plugin must have written. */
  readonly reads?: readonly Reads[]
  /** Context keys that this plugin adds for `next`. */
  readonly writes?: readonly Writes[]
  /** It never calls next(); the last plugin of a pipeline must be terminal, and no other may be. */
  readonly terminal?: true
  /** It may call next() more than once for a call. */
  readonly repeats?: true
  /** It must run exactly once per call (it charges, say): no plugin that `repeats` may stand above it. */
  readonly once?: true
  /**
   * It may give one caller's answer to another with the same `request`: what stands below and reads any other note from
   * above must say `vary`.
   */
  readonly shares?: true
  /** What in the notes, or about the caller, changes the answer, as a short text. Callers for whom it differs never share an answer. */
  vary?(context: Pick<CallContext, Reads>, options: Infer<S>, origin: Origin): string
  /** Rules that the schema cannot say. Pure. */
  check?(options: Infer<S>, report: ReportProblem): void
  /** Thinks once, at load; what it returns serves every call. May throw misconfigured(). */
  create(options: Infer<S>, services: Services): Handler<Reads, Writes> | Stage<Reads, Writes>
}

/** A plugin whose types have been proved by definePlugin(); what the loader works with. */
export type AnyPlugin = Plugin<ObjectSchema, never, never>

/** Proves that the plugin fits its own schema and notes, and forgets the particular types. */
export const definePlugin = <const S extends ObjectSchema, const R extends ContextKey = never, const W extends ContextKey = never>(
  plugin: Plugin<S, R, W>,
): AnyPlugin =>
  // The one cast: from here on the loader, not the compiler, keeps options and notes together.
  plugin as unknown as AnyPlugin

/** What create() throws when options that pass their schema cannot work; the operator sees each with its place. */
export class Misconfigured extends Error {
  readonly issues: readonly { readonly path: Path; readonly message: string }[]

  constructor(issues: readonly { readonly path: Path; readonly message: string }[]) {
    super(issues.map(fault => fault.message).join('; '))
    this.name = 'Misconfigured'
    this.issues = issues
  }
}

/** The same for one option, to be thrown: an empty path is the step itself. */
export const misconfigured = (path: Path, message: string): Misconfigured => new Misconfigured([{ path, message }])

/** Throws misconfigured() for each option that names a method which the table lacks. */
export const assertKnownMethods = (references: readonly { readonly path: Path; readonly method: string }[], methods: MethodTable): void => {
  const issues = references
    .filter(({ method }) => methods.get(method) === undefined)
    .map(({ path, method }) => {
      const hint = didYouMean(method, methods.names)
      return { path, message: `the method ${method} is not in the method table${hint === undefined ? '' : `; ${hint}`}` }
    })
  if (issues.length > 0) throw new Misconfigured(issues)
}
