import nodeModule, { createRequire, register } from 'node:module'
import type { InitializeHook, ResolveHook } from 'node:module'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'

const require = createRequire(import.meta.url)

/** Defined by write-bundle.ts. */
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

/** What becomes of the top level of a module: `hung` while it still runs after the time. Its errors are for whoever imports it in earnest. */
export type TrialImport = 'ended' | 'hung'

/** Imports a module in a thread of its own, which can be ended where its top level loops; that of an import in this thread would stop everything. */
export const tryImport = (url: string, timeoutMs: number): Promise<TrialImport> =>
  new Promise(resolve => {
    const worker = new Worker(trialCode, { eval: true, workerData: { url, pluginUrl }, stdout: true, stderr: true })
    const end = (result: TrialImport): void => {
      clearTimeout(timer)
      void worker.terminate()
      resolve(result)
    }
    const timer = setTimeout(end, timeoutMs, 'hung')
    worker.on('message', () => end('ended')).on('error', () => end('ended'))
    // It waits for what never comes.
    worker.on('exit', () => end('hung'))
  })

/** The hook of the main thread does not apply to it. */
const trialCode = `
const { parentPort, workerData: { url, pluginUrl } } = require('node:worker_threads')
const nodeModule = require('node:module')
const target = { url: pluginUrl, shortCircuit: true }
const resolve = (specifier, context, next) => specifier === 'tollgate/plugin' ? target : next(specifier, context)
if (nodeModule.registerHooks) nodeModule.registerHooks({ resolve })
else nodeModule.register('data:text/javascript,' + encodeURIComponent('const target = ' + JSON.stringify(target) + '; export const resolve = ' + resolve))
const end = () => parentPort.postMessage('ended')
import(url).then(end, end)
`
