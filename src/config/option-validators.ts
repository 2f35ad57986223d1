import { createHash } from 'node:crypto'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Ajv, ErrorObject, Options } from 'ajv'
import { loadAjv } from '../util/load-ajv.ts'
import { formats } from './formats.ts'
import type { JsonSchema } from './schema.ts'

/** Adds the defaults to the value; false with `errors`. */
export interface Validator {
  (value: unknown): boolean
  readonly errors?: null | readonly ErrorObject[]
}

/** What a module that writeValidators() has written exports, with the functions by which formats accept. */
type WrittenValidator = (accepts: Readonly<Record<string, (text: string) => boolean>>) => Validator

/** The build fills it with writeValidators(); without it, and for schemas of external plugins, Ajv compiles when a schema is first used. */
export const validatorsFolder = fileURLToPath(new URL('validators', import.meta.url))

/** The module of one schema: a command loads only those of what it reads. */
export const validatorFile = (schema: JsonSchema, folder: string): string => join(folder, `${hashOf(schema)}.cjs`)

/** Equal for equal schemas alone. */
const hashOf = (schema: JsonSchema): string => createHash('sha256').update(JSON.stringify(schema)).digest('hex')

/**
 * Ajv takes 100 ms to load and to compile the schemas of a start, a fifth of it; the written modules take 3 ms. Throws for an invalid schema.
 */
export const createValidator = (schema: JsonSchema, folder = validatorsFolder): Validator =>
  readWritten(validatorFile(schema, folder)) ?? (ajv ??= createAjv({ code: { optimize: false } })).compile(schema)

let ajv: Ajv | undefined

/** Undefined where there is no such module, or a damaged one. */
const readWritten = (file: string): Validator | undefined => {
  try {
    return (createRequire(import.meta.url)(file) as WrittenValidator)(formatChecks) // as writeValidators() writes it
  } catch {
    return undefined
  }
}

const formatChecks = Object.fromEntries(Object.entries(formats).map(([name, { accepts }]) => [name, accepts]))

/** For schemas of options. The types check those of the gateway, and the meta schema would take 30 ms. */
export const createAjv = (options: Options): Ajv => {
  const created = new (loadAjv())({
    strict: true,
    allErrors: true,
    useDefaults: true,
    messages: false,
    meta: false,
    validateSchema: false,
    ...options,
  })
  for (const [name, accepts] of Object.entries(formatChecks)) created.addFormat(name, accepts)
  return created
}
