import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import type { ObjectSchema } from '../plugin/options-schema.ts'
import { createAjv, validatorFile, validatorsFolder } from './option-validators.ts'
import { toJsonSchema } from './schema.ts'

/** Writes a module for each schema, compiled, for createValidator(). The build alone loads what compiles them. */
export const writeValidators = async (schemas: readonly ObjectSchema[], folder = validatorsFolder): Promise<void> => {
  const [{ _ }, { default: standalone }] = await Promise.all([import('ajv'), import('ajv/dist/standalone/index.js')])
  const ajv = createAjv({ code: { source: true, optimize: true, formats: _`formats` } })
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  for (const schema of schemas.map(toJsonSchema)) {
    const code = standalone.default(ajv, ajv.compile(schema))
    writeFileSync(
      validatorFile(schema, folder),
      `module.exports = formats => {\nconst module = { exports: {} }\n${code}\nreturn module.exports\n}\n`,
    )
  }
}
