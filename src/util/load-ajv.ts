import { createRequire } from 'node:module'
import type * as AjvModule from 'ajv'

/**
 * Ajv, loaded where a schema is first compiled: most commands can do without. In the bundle it is one file of its own, which takes a third of the
 * time of the package's 64.
 */
export const loadAjv = (): typeof AjvModule.Ajv => (createRequire(import.meta.url)('ajv') as typeof AjvModule).Ajv // what the package exports
