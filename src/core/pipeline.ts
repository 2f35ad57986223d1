import { randomBytes } from 'node:crypto'
import type { Step } from '../config/types.ts'
import type { Call, CallContext, ContextKey, Origin, OriginState, Signal } from '../plugin/call.ts'
import type { DirectHandler, DirectNext } from '../plugin/direct-stage.ts'
import type { Stage } from '../plugin/plugin.ts'
import type { Failure, Reply } from '../plugin/reply.ts'
import { PluginFault } from '../plugin/plugin-fault.ts'
import type { MethodTable, Services } from '../services/index.ts'
import type { Log } from '../services/log.ts'
import type { InFlight } from '../util/async.ts'

/** W3C Trace Context, version 00: neither id is all zeros. */
const traceparentPattern = /^00-(?!0{32})[\da-f]{32}-(?!0{16})[\da-f]{16}-[\da-f]{2}$/

/** The trace that a caller has sent; undefined where there is none, or it is not well-formed. */
const readTraceparent = ({ headers }: Pick<Origin, 'headers'>): string | undefined => {
  const { traceparent } = headers
  return typeof traceparent === 'string' && traceparentPattern.test(traceparent) ? traceparent : undefined
}

/** A stage whose context the loader has checked; the types of contexts end here. */
export type AnyStage = Stage<never, never>

/** A stage, and the step that it was created from. */
export interface PipelineStage {
  readonly step: Step
  readonly stage: AnyStage
}

export type AnyHandler = DirectHandler<never, never>

/** The handler, perhaps recorded as a span. */
type TraceStage = (name: string, handle: AnyHandler) => AnyHandler

/** Composes the handlers of the stages, outermost first, into one function; done once, at load. */
export const composeHandlers = (stages: readonly PipelineStage[], log: Log, trace: TraceStage): DirectNext => {
  const steps = stages.map(({ step }) => step)
  const sharerIndex = sharerIndexOf(steps)
  return stages.reduceRight<DirectNext>((next, { step, stage }, i) => {
    const handle = trace(step.name, handlerOf(stage, steps, i))
    const below = i === sharerIndex ? withoutCaller(next, step, { varyingSteps: steps.slice(i + 1).filter(varies), log }) : next
    return call => handle(call, below)
  }, endOfPipeline)
}

/** The handler of the stage. Unless the stage is direct, its `next` returns promises. */
const directHandlerOf = (stage: AnyStage): AnyHandler => {
  const handle = stage.handle.bind(stage)
  if (stage.direct === true) return handle as AnyHandler // directStage() has checked that
  return (call, next) => handle(call, changedCall => promiseOf(next, changedCall))
}

/** Not async: a promise of the plugin below would be waited for three times, which takes 0.07 us. */
const promiseOf = (next: DirectNext, call: Call): Promise<Reply> => {
  try {
    return Promise.resolve(next(call))
  } catch (bug) {
    return Promise.reject(bug)
  }
}

const endOfPipeline: DirectNext = () => {
  throw new EndOfPipelineError('the last plugin of a pipeline called next()')
}

/** A bug of the plugin that called. */
export class EndOfPipelineError extends Error {}

/** The position of the step that shares answers between callers; -1 when none does. The loader accepts one at most. */
export const sharerIndexOf = (steps: readonly Step[]): number => steps.findIndex(({ plugin }) => plugin.shares === true)

/** The handler of the stage, for calls that do not pass. It is given its variant: a stage without one is not given that of a stage above. */
const handlerOf = (stage: AnyStage, steps: readonly Step[], i: number): AnyHandler => {
  const handle = directHandlerOf(stage)
  const passes = stage.passes?.bind(stage)
  const variantOf = variantReader(steps, i)
  const hasVariant = variantOf !== undefined || steps.slice(0, i).some(varies)
  if (!hasVariant && passes === undefined) return handle
  return (call: Call, next) => {
    const variant = variantOf?.(call)
    // The stage reads what it declares, as the loader has checked.
    if (passes?.(call.context as CallContext, variant) === true) return next(call)
    if (call.variant === variant) return handle(call as never, next)
    const { message, origin, signal, startedAtMs, context } = call
    return handle({ message, origin, signal, startedAtMs, context, variant } as never, next)
  }
}

/** Reads the variant of the step from the shared call; above the plugin that shares, vary() is called. */
const variantReader = (steps: readonly Step[], i: number): ((call: Call) => string | undefined) | undefined => {
  const step = steps[i]
  const sharerIndex = sharerIndexOf(steps)
  if (step === undefined || !varies(step) || i === sharerIndex) return undefined
  if (sharerIndex < 0 || i < sharerIndex) return varyReader(step)
  const position = steps.slice(sharerIndex + 1, i).filter(varies).length
  return ({ origin }) => (origin instanceof SharedOrigin ? origin.variantAt(position) : undefined)
}

const varies = ({ plugin }: Step): boolean => plugin.vary !== undefined

// Each plugin sees the context that it reads; the loader has proved that it is written by now.
const varyReader =
  ({ name, plugin, file, options }: Step): Services['vary'] =>
  call => {
    try {
      const text: unknown = plugin.vary?.(call.context as Pick<never, ContextKey & never>, options as never, call.origin)
      // The types promise it, but not for a plugin written in JavaScript: objects of different callers have one text.
      if (typeof text !== 'string') throw new TypeError('vary() must return a text')
      return text
    } catch (bug) {
      throw file === undefined ? bug : new PluginFault(name, file, bug)
    }
  }

/** What the `vary` functions of these steps say of a call, as one text. */
export const varyBelow = (steps: readonly Step[]): Services['vary'] => {
  const readers = steps.filter(varies).map(varyReader)
  const [only] = readers
  if (only === undefined) return () => ''
  if (readers.length === 1) return only
  return call => joinTexts(readers.map(read => read(call)))
}

/** Each with its length, because a text may hold anything that callers send: a separator would not tell where it ends. */
const joinTexts = (texts: readonly string[]): string => texts.map(text => `${text.length} ${text}`).join('')

/** The texts that varyBelow() made one text of. */
const splitVariants = (joined: string, count: number): readonly string[] => {
  if (count < 2) return [joined]
  const texts: string[] = []
  for (let at = 0; at < joined.length; ) {
    const start = joined.indexOf(' ', at) + 1
    at = start + Number(joined.slice(at, start))
    texts.push(joined.slice(start, at))
  }
  return texts
}

interface SharingOptions {
  /** The steps below that have vary(), in their order. */
  readonly varyingSteps: readonly Step[]
  readonly log: Log
}

/**
 * The rest of the pipeline for calls without a caller. What may be shared is made from what is shared by: the request and the
 * variants. So nothing else of a caller can get into an answer for another, whatever the plugins below read.
 */
const withoutCaller = (next: DirectNext, sharer: Step, { varyingSteps, log }: SharingOptions): DirectNext => {
  const ownKeys: readonly ContextKey[] = sharer.plugin.writes ?? []
  const vary = varyBelow(varyingSteps)
  return call => {
    const above: Pick<CallContext, 'request'> & Partial<CallContext> = (call as Call<'request'>).context // the loader has checked it
    const { method, params } = above.request
    const origin = new SharedOrigin(call, splitVariants(call.variant ?? vary(call), varyingSteps.length))
    log.debug({ requestId: call.origin.requestId, sharedRequestId: origin.requestId }, 'call continues as a shared request')
    const context: Record<string, unknown> = { request: { method, params } }
    for (const key of ownKeys) if (key !== 'request') context[key] = above[key]
    return next({ message: { jsonrpc: '2.0', method, params }, origin, signal: origin.signal, startedAtMs: call.startedAtMs, context })
  }
}

const noHeaders: Origin['headers'] = Object.freeze({})

const sharedRequestIdPrefix = randomBytes(6).toString('hex')
let sharedRequestCount = 0

/** The origin of calls that callers may share: it knows none of them. */
class SharedOrigin implements Origin {
  readonly transport = 'shared'
  readonly network: string
  readonly key = undefined
  readonly originHeader = undefined
  readonly ip = ''
  readonly requestId = `${sharedRequestIdPrefix}-shared-${((sharedRequestCount += 1)).toString(36)}`
  readonly headers = noHeaders
  readonly signal: Signal
  readonly state: OriginState = {}
  readonly #variants: readonly string[]
  readonly #traceparent: string | undefined
  readonly #owner: string

  constructor(call: Call, variants: readonly string[]) {
    const { origin, signal } = call
    this.network = origin.network
    this.signal = signal ?? origin.signal
    this.#variants = variants
    this.#traceparent = SharedOrigin.traceparentOf(call)
    this.#owner = SharedOrigin.ownerOf(origin)
  }

  // These two are no members of the origin, which knows no caller.

  static traceparentOf({ origin }: Pick<Call, 'origin'>): string | undefined {
    return #traceparent in origin ? origin.#traceparent : readTraceparent(origin)
  }

  static ownerOf(origin: Origin): string {
    return #owner in origin ? origin.#owner : (origin.state.accountId ?? origin.ip)
  }

  /** What vary() of one of the plugins below returned, by its position among those that have one. */
  variantAt(position: number): string | undefined {
    return this.#variants[position]
  }
}

/** The services about traces where no spans are recorded. `traceparent`: for a shared call that of the caller for whom it began. */
export const withoutSpans: Pick<Services, 'traceparent' | 'currentSpan'> = {
  traceparent: SharedOrigin.traceparentOf,
  currentSpan: () => undefined,
}

/** The account that a call is for, or the address without one; of a shared call that of the caller for whom it began. */
export const { ownerOf } = SharedOrigin

type AdmissionCheck = NonNullable<AnyStage['admit']>

/** Asks each stage in order; the first failure ends it. Synchronous while the stages are; otherwise it counts as in flight. */
export const composeAdmission = (stages: readonly PipelineStage[], inFlight: InFlight): AdmissionCheck => {
  const checks = stages.flatMap(({ stage }) => stage.admit?.bind(stage) ?? [])
  const admitLater = async (origin: Origin, pending: ReturnType<AdmissionCheck>, rest: typeof checks): Promise<Failure | undefined> => {
    inFlight.begin()
    try {
      let failure = await pending
      for (const check of rest) failure ??= await check(origin)
      return failure
    } finally {
      inFlight.end()
    }
  }
  return origin => {
    for (let i = 0; i < checks.length; i++) {
      const failure = checks[i]!(origin)
      if (failure instanceof Promise) return admitLater(origin, failure, checks.slice(i + 1))
      if (failure !== undefined) return failure
    }
    return undefined
  }
}

/** As the first stage says that refuses or answers the method. */
export const offersMethod = (stages: readonly PipelineStage[], method: string, context: Partial<CallContext> | undefined): boolean => {
  for (const { stage } of stages) {
    const offered = stage.offers?.(method, context) ?? true
    if (!offered) return false
    if (offered === 'answered') return true
  }
  return true
}

/** The stages are known once calls arrive. Few have a price. */
export const composePrices = (stages: readonly PipelineStage[], methods: MethodTable): Services['priceOf'] => {
  let prices: readonly NonNullable<AnyStage['priceOf']>[] | undefined
  return ({ context, origin }, result) => {
    prices ??= stages.flatMap(({ stage }) => stage.priceOf?.bind(stage) ?? [])
    let credits = methods.get(context.request.method)?.cost ?? methods.defaultCost
    // Each stage reads of the context what it declares, as the loader has checked.
    for (const priceOf of prices) credits = priceOf(credits, context as CallContext, origin, result)
    return Math.ceil(credits)
  }
}
