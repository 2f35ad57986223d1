import type { Handler, Next } from '../plugin/plugin.ts'

/** A handler whose notes the loader has proved; inside the engine the types of notes no longer matter. */
export type AnyHandler = Handler<never, never>

const endOfPipeline: Next = () => {
  throw new Error('the last plugin of a pipeline called next()')
}

/** Folds the handlers, outermost first, into one function; done once, at load. */
export const composeHandlers = (handlers: readonly AnyHandler[]): Next =>
  handlers.reduceRight<Next>((next, handle) => call => handle(call, next), endOfPipeline)
