import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'

const require = createRequire(import.meta.url)

/**
 * Loads modules, with all that they need, before it returns: who imports them afterwards finds them there. Node then reads
 * one file after the other itself, in place of handing each to a thread, which takes 40 ms less of a start with its 430 files.
 * Does nothing where Node cannot (20.19 can, and 22.12). No module among them may await anything at its top level.
 */
export const loadModulesSync = (...modules: readonly URL[]): void => {
  if (!process.features.require_module) return
  for (const url of modules) require(fileURLToPath(url))
}
