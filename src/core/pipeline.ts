import type { Step } from '../config/types.ts'
import type { Call, CallContext, Origin } from '../plugin/call.ts'
import type { DirectHandler, DirectNext } from '../plugin/direct-stage.ts'
import type { Stage } from '../plugin/plugin.ts'
import type { Failure, Reply } from '../plugin/reply.ts'
import type { Method, MethodDescription, MethodTable, Services } from '../services/index.ts'
import type { Log } from '../services/log.ts'
import type { InFlight } from '../util/async.ts'
import { sharerIndexOf, variantReader, varies, withoutCaller } from './shared-calls.ts'

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

/** The methods that no stage refuses, as developers read of them. The stages are known once calls arrive. */
export const composeDescriptions =
  (stages: readonly PipelineStage[], methods: MethodTable): Services['describeMethods'] =>
  context =>
    stages
      .reduce((described, { stage }) => stage.describeMethods?.(described) ?? described, describeTable(methods))
      .filter(({ name }) => offersMethod(stages, name, context))

const describeTable = (table: MethodTable): readonly MethodDescription[] =>
  table.names.flatMap(name => {
    const method = table.get(name)
    if (method === undefined) return []
    const { cost: credits, eventCosts: eventCredits } = method
    return [{ name, credits, ...(eventCredits && { eventCredits }), ...limitsOf(method), params: method.describeParams() }]
  })

const limitsOf = ({ maxResults, maxBlocks, maxTime, splittable }: Method): Pick<MethodDescription, 'limits'> => {
  const blocks = maxBlocks ?? (splittable === true ? null : undefined)
  const limits = {
    ...(maxResults !== undefined && { results: maxResults }),
    ...(blocks !== undefined && { blocks }),
    ...(maxTime !== undefined && { ms: maxTime }),
  }
  return Object.keys(limits).length === 0 ? {} : { limits }
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
