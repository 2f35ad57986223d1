import { writeFileSync } from 'node:fs'
import { _ } from 'ajv'
import standalone from 'ajv/dist/standalone/index.js'
import type { ObjectSchema } from '../plugin/options-schema.ts'
import { createAjv, keyOf, writtenFile } from './option-validators.ts'
import { toJsonSchema } from './schema.ts'

/** Writes validators of the schemas, compiled, for createValidator(). */
export const writeValidators = (schemas: readonly ObjectSchema[], file = writtenFile): void => {
  const ajv = createAjv({ code: { source: true, optimize: true, formats: _`formats` } })
  const keys = schemas.map(toJsonSchema).map(schema => {
    const key = keyOf(schema)
    if (ajv.getSchema(key) === undefined) ajv.addSchema(schema, key)
    return key
  })
  const code = standalone.default(ajv, Object.fromEntries(keys.map(key => [key, key])))
  writeFileSync(file, `module.exports = formats => {\nconst exports = {}\n${code}\nreturn exports\n}\n`)
}
