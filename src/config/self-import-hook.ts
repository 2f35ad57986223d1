import type { ResolveHook } from 'node:module'

/**
 * A module hook: `tollgate/plugin` means this very installation, wherever the importing file lies. A plugin beside the
 * configuration in /etc then works without a node_modules of its own, and there is never a second copy.
 */
export const resolve: ResolveHook = (specifier, context, next) =>
  specifier === 'tollgate/plugin'
    ? { url: new URL('../plugin/plugin.js', import.meta.url).href, shortCircuit: true }
    : next(specifier, context)
