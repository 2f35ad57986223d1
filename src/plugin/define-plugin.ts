import type { pluginApiVersion } from './api-version.ts'
import type { Call, ContextKey, CallContext, Origin } from './call.ts'
import type { Path } from '../util/json.ts'
import { didYouMean } from '../util/did-you-mean.ts'
import type { MaybePromise } from '../util/async.ts'
import { createNameMatcher } from '../util/name-pattern.ts'
import type { Failure, Reply, Result } from './reply.ts'
import type { Infer, ObjectSchema } from './options-schema.ts'
import type { NetworkRateLimits } from '../services/rate-limit-options.ts'
import type { EventRules, Lookup, MethodDescription, MethodTable, Services } from '../services/index.ts'

/** The rest of the pipeline. Each call of it is a fresh run. */
export type Next<Writes extends ContextKey = never> = (call: Call<Writes>) => Promise<Reply>

/** Handles a call. Refusals and failures are returned; a handler throws only because of a bug. */
export type Handler<Reads extends ContextKey = never, Writes extends ContextKey = never> = (
  call: Call<Reads>,
  next: Next<Reads | Writes>,
) => MaybePromise<Reply>

/** A handler with a lifecycle. Stages are started from the last to the first, and stopped from the first to the last. */
export interface Stage<Reads extends ContextKey = never, Writes extends ContextKey = never> {
  /** Runs on every call but those that pass. */
  readonly handle: Handler<Reads, Writes>
  /**
   * True for a call that the handler would pass on, whose reply it would return: the handler does not run, so that the stage costs the call next to nothing.
   * Called for each call, with what vary() of the plugin returned for it.
   */
  passes?(context: Pick<CallContext, Reads>, variant: string | undefined): boolean
  /** Set by directStage(), for the gateway's own plugins. */
  readonly direct?: true
  /**
   * Called once per HTTP request before its body is read, and once per WebSocket upgrade: a failure is the whole response,
   * with its HTTP status. While WebSockets are open, called every 250 ms for each of their keys, with the origin of one of
   * the key's WebSockets: a failure of the kind `key` closes them all, and any other failure is ignored.
   */
  admit?(origin: Origin): Failure | undefined | Promise<Failure | undefined>
  /**
   * False for a method that the stage refuses whatever its parameters are; with the context of a call, also for one that it refuses
   * to that caller. `answered` for one that the stage answers, whatever the stages below refuse. `services.offers()` and
   * `services.describeMethods()` ask the stages of the pipeline from the first to the last.
   */
  offers?(method: string, context?: Partial<CallContext>): boolean | 'answered'
  /**
   * The methods as developers read of them. Each stage changes the list of the stage above it; the first gets that of the
   * method table.
   */
  describeMethods?(methods: readonly MethodDescription[]): readonly MethodDescription[]
  /**
   * What the call costs, where the stages above say `credits`; the first gets the cost of the method. It is asked before the call runs, with the context
   * and the origin of its caller, also of a stage below a plugin that `shares`. It is asked again with a result that says what it was verified by: where
   * that costs less, the difference is refunded.
   */
  priceOf?(credits: number, context: CallContext, origin: Origin, result?: Result): number
  /** Rules about events of subscriptions. Those of the pipeline that serves hold for all WebSockets, from a reload on. */
  readonly events?: Partial<EventRules>
  /** What `tollgate explain` prints of this stage; reads nothing and sends nothing. */
  explain?(call: ExplainedCall): Explanation
  /** Returns quickly; rejecting stops the gateway from starting. */
  start?(): Promise<void>
  /** Safe without start(), and twice. */
  stop?(): Promise<void>
}

/** A call that `tollgate explain` describes. */
export interface ExplainedCall {
  readonly method: string
  /** What the call costs, as all stages say together; for a caller who sends no header. */
  readonly credits: number
  /** The look-up of the key that is given; undefined without one. */
  readonly lookup: Lookup | undefined
  /** Credits that the account has left today; undefined without a key. */
  readonly creditsLeft: number | undefined
  /** Credits that the key has left today of a daily limit of its own; undefined where it has none. */
  readonly keyCreditsLeft?: number | undefined
}

/** What becomes of a call at one stage. */
export interface Explanation {
  /** One sentence each, without a full stop. */
  readonly text: readonly string[]
  /** The call does not pass on to the stages below. */
  readonly ends?: 'refused' | 'answered'
}

/** Another step of the pipeline, as checkPipeline() gets it. */
export interface OtherStep {
  /** The name of its plugin. */
  readonly plugin: string
  /** As its plugin gets them: of the shape that its schema gives. */
  readonly options: Readonly<Record<string, unknown>>
}

/** Reports what is wrong with the option at `path`: what was found, what was expected. */
export type ReportProblem = (path: Path, message: string) => void

/** The default export of a plugin's file, made with definePlugin(). */
export interface Plugin<
  S extends ObjectSchema = ObjectSchema,
  Reads extends ContextKey = never,
  Writes extends ContextKey = never,
  HandlerReads extends ContextKey = Reads,
  Varies extends ContextKey = Reads,
> {
  /** kebab-case: its name in network files, in the log and in metrics. */
  readonly name: string
  /** The version of the plugin API that the plugin is written for; the version of the gateway that loads it unless given. */
  readonly apiVersion?: typeof pluginApiVersion
  /** One sentence, shown by editors. */
  readonly summary: string
  /** The schema of the options, with defaults and descriptions; their type follows from it. */
  readonly options: S
  /** Context keys that an earlier plugin must have written. */
  readonly reads?: readonly Reads[]
  /** Context keys that vary() reads, where those are not `reads`: of a plugin that reads what is written below the plugin that shares. */
  readonly variesBy?: readonly Varies[]
  /** Context keys that this plugin adds for `next`. */
  readonly writes?: readonly Writes[]
  /** The plugin never calls next(). The last plugin of a pipeline must be terminal, and no other may be. */
  readonly terminal?: true
  /** What a pipeline without this plugin lets callers do, for a warning of `tollgate check`. */
  readonly whenMissing?: string
  /**
   * The plugin applies the rates of plans and keys, and the limits that it returns, which the dashboard shows. Where no plugin of a pipeline does,
   * `tollgate check` warns that rates have no effect.
   */
  limitsRates?(options: Infer<S>): NetworkRateLimits
  /** The plugin says in `verified` what results were verified by. On its networks a result of a node that has no `verified` gets `none`. */
  readonly verifies?: true
  /** The stage calls `services.heads.track()` at its start. */
  readonly tracksHeads?: true
  /** What becomes of the plugin in a pipeline that tracks no heads, for a warning of `tollgate check`. */
  readonly withoutHeads?: string
  /** The plugin may call next() more than once for a call. */
  readonly repeats?: true
  /** The plugin must run exactly once per call (it charges, say): no plugin with `repeats` may be above it. */
  readonly once?: true
  /**
   * The plugin may return one caller's reply to another caller with the same `request` and the same `services.vary()`. The
   * plugins below get calls without a caller: of the context only `request` and what this plugin writes.
   */
  readonly shares?: true
  /**
   * What of the context and of the origin changes the reply, as a short text; the handler gets it as `call.variant`. Callers
   * whose texts differ never share a reply. Runs for the plugin that shares above, or else before the handler.
   */
  vary?(context: Pick<CallContext, Varies>, options: Infer<S>, origin: Origin): string
  /** Rules that the schema cannot express. Pure. */
  check?(options: Infer<S>, report: ReportProblem): void
  /** Rules about the other steps of the pipeline, those above and those below. Pure. Called for steps without problems. */
  checkPipeline?(options: Infer<S>, others: readonly OtherStep[], report: ReportProblem): void
  /** Runs once, at load; the handler that it returns serves every call. May throw misconfigured(). */
  create(options: Infer<S>, services: Services): Handler<HandlerReads, Writes> | Stage<HandlerReads, Writes>
}

/** A plugin with vary(), which alone reads the context of a caller: the handler reads `request` and `call.variant`. */
type VaryingPlugin<S extends ObjectSchema, Reads extends ContextKey, Writes extends ContextKey> = Plugin<
  S,
  Reads,
  Writes,
  Extract<Reads, 'request'>
> &
  Required<Pick<Plugin<S, Reads, Writes>, 'vary'>>

/** A plugin whose vary() reads `variesBy`, and whose handler reads `reads`. */
type SplitPlugin<S extends ObjectSchema, Reads extends ContextKey, Writes extends ContextKey, Varies extends ContextKey> = Plugin<
  S,
  Reads,
  Writes,
  Reads,
  Varies
> &
  Required<Pick<Plugin<S, Reads, Writes, Reads, Varies>, 'vary' | 'variesBy'>>

/** A plugin whose types definePlugin() has checked; what the loader works with. */
export type AnyPlugin = Plugin<ObjectSchema, never, never>

/** Stands in the compiler's error about a plugin whose handler reads what only its vary() may read. */
type CompilerHint = 'beside vary(), the handler reads only `request` of the context, and call.variant'

/** The context keys that the handler may read: of those that its vary() reads, `request` alone. */
export const handlerReads = ({ reads = [], vary, variesBy }: AnyPlugin): readonly ContextKey[] => {
  const keys: readonly ContextKey[] = reads
  return vary === undefined || variesBy !== undefined ? keys : keys.filter(key => key === 'request')
}

/** Makes a plugin. Checks its types against its own schema and context keys, and erases the particular types. */
export const definePlugin: {
  <const S extends ObjectSchema, const R extends ContextKey = never, const W extends ContextKey = never>(
    plugin: VaryingPlugin<S, R, W> & { readonly variesBy?: never },
  ): AnyPlugin
  <const S extends ObjectSchema, const V extends ContextKey, const R extends ContextKey = never, const W extends ContextKey = never>(
    plugin: SplitPlugin<S, R, W, V>,
  ): AnyPlugin
  <const S extends ObjectSchema, const R extends ContextKey = never, const W extends ContextKey = never>(
    plugin: Plugin<S, R, W> & { readonly vary?: CompilerHint },
  ): AnyPlugin
} = (plugin: object): AnyPlugin =>
  // The one cast: from here on the loader, not the compiler, matches options and context keys.
  plugin as AnyPlugin

/** Thrown by create() when options that pass their schema cannot work; each issue is reported at its place in the YAML file. */
export class Misconfigured extends Error {
  readonly issues: readonly { readonly path: Path; readonly message: string }[]

  constructor(issues: readonly { readonly path: Path; readonly message: string }[]) {
    super(issues.map(issue => issue.message).join('; '))
    this.name = 'Misconfigured'
    this.issues = issues
  }
}

/** The error for one option, or for several, to be thrown by create(); an empty path is the step itself. */
export const misconfigured: {
  (path: Path, message: string): Misconfigured
  (issues: Misconfigured['issues']): Misconfigured
} = (first: Path | Misconfigured['issues'], message?: string): Misconfigured =>
  new Misconfigured(message === undefined ? (first as Misconfigured['issues']) : [{ path: first as Path, message }]) // by the overloads above

/** Throws Misconfigured with an issue for each option whose name, or pattern with `*`, fits no method of the table. */
export const assertKnownMethods = (references: readonly { readonly path: Path; readonly method: string }[], methods: MethodTable): void => {
  const issues = references
    .filter(({ method }) => (method.includes('*') ? !methods.names.some(createNameMatcher([method])) : methods.get(method) === undefined))
    .map(({ path, method }) => {
      const hint = didYouMean(method, methods.names)
      const fault = method.includes('*')
        ? `no method of the method table fits ${method}`
        : `the method ${method} is not in the method table`
      return { path, message: `${fault}${hint === undefined ? '' : `; ${hint}`}` }
    })
  if (issues.length > 0) throw new Misconfigured(issues)
}
