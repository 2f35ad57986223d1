import { createRequire } from 'node:module'
import type * as AjvModule from 'ajv'

/** Ajv, loaded where a schema is first compiled: its 64 files take 25 ms, which starts and most commands can do without. */
export const loadAjv = (): typeof AjvModule.Ajv => (createRequire(import.meta.url)('ajv') as typeof AjvModule).Ajv // what the package exports
