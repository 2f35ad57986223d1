import type { ResolveHook } from 'node:module'

/**
 * A module hook: `tollgate/plugin` is this installation, whatever file imports it. An external plugin in /etc then works
 * without a node_modules of its own, and there is never a second copy. Runs in a thread of its own (register) or in the
 * main thread (registerHooks), where `next` returns a value and not a promise.
 */
export const resolve: ResolveHook = (specifier, context, next) =>
  specifier === 'tollgate/plugin'
    ? { url: new URL('../plugin/plugin.js', import.meta.url).href, shortCircuit: true }
    : next(specifier, context)
