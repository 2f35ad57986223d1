import type { MaybePromise } from '../util/async.ts'
import type { Call, ContextKey } from './call.ts'
import type { Stage } from './plugin.ts'
import type { Reply } from './reply.ts'

/** As Next, but where no plugin below waits for anything, it returns the reply itself. */
export type DirectNext<Writes extends ContextKey = never> = (call: Call<Writes>) => MaybePromise<Reply>

/**
 * A handler that also takes replies without a promise from `next`. A promise takes 0.15 us and 500 bytes at each plugin that waits for
 * it: with all of them, a cached call of a batch takes a third more CPU.
 */
export type DirectHandler<Reads extends ContextKey = never, Writes extends ContextKey = never> = (
  call: Call<Reads>,
  next: DirectNext<Reads | Writes>,
) => MaybePromise<Reply>

/** A stage whose handler takes replies as they come. To a plugin that is not built in, `next` always returns a promise. */
export const directStage = <Reads extends ContextKey = never, Writes extends ContextKey = never>(
  stage: Omit<Stage<Reads, Writes>, 'handle' | 'direct'> & { readonly handle: DirectHandler<Reads, Writes> },
): Stage<Reads, Writes> => ({ ...stage, direct: true })
