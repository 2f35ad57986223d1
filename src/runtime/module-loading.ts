import nodeModule, { createRequire, register } from 'node:module'
import type { InitializeHook, ResolveHook } from 'node:module'
import { fileURLToPath } from 'node:url'

const require = createRequire(import.meta.url)

/** Defined by write-build-files.ts. */
declare const isBundle: boolean | undefined

let isHookRegistered = false

/** Since Node.js 22.15, which @types/node 20 does not know; Node.js 26 prints a warning where register() is called. */
const { registerHooks } = nodeModule as { readonly registerHooks?: (hooks: { readonly resolve: ResolveHook }) => void }

/** Once per process, and only for configurations with external plugins: the thread of register() costs about 30 ms. */
export const registerSelfImportHook = (): void => {
  if (isHookRegistered) return
  isHookRegistered = true
  if (registerHooks === undefined) register(import.meta.url, { data: pluginUrl })
  else registerHooks({ resolve })
  if (pluginUrl !== exportedUrl) requireFromBundle()
}

/** What package.json exports as `tollgate/plugin`: tests of plugins import it, and what runs without the bundle. */
const exportedUrl = new URL('../plugin/plugin.js', import.meta.url).href

/** What plugins get for it. In the bundle, the classes and tables are those of the bundle. */
let pluginUrl = typeof isBundle === 'undefined' ? exportedUrl : new URL('../../bundle/plugin.js', import.meta.url).href

/** The hook of register() does not apply to require(). */
const requireFromBundle = (): void => {
  const path = fileURLToPath(pluginUrl)
  require(path)
  require.cache[fileURLToPath(exportedUrl)] = require.cache[path]
}

/** Called in the thread of register(), which loads this file without the bundle. */
export const initialize: InitializeHook<string> = url => void (pluginUrl = url)

/**
 * A module hook: `tollgate/plugin` is this installation, whatever file imports it. An external plugin in /etc then works
 * without a node_modules of its own, and there is never a second copy. Runs in a thread of its own (register) or in the
 * main thread (registerHooks), where `next` returns a value and not a promise.
 */
export const resolve: ResolveHook = (specifier, context, next) =>
  specifier === 'tollgate/plugin' ? { url: pluginUrl, shortCircuit: true } : next(specifier, context)
