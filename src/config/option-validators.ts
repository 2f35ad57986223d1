import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import type { Ajv, ErrorObject, Options } from 'ajv'
import type { ObjectSchema } from '../plugin/options-schema.ts'
import { loadAjv } from '../util/load-ajv.ts'
import { formats } from './formats.ts'
import { toJsonSchema } from './schema.ts'
import type { JsonSchema } from './schema.ts'

/** Adds the defaults to the value; false with `errors`. */
export interface Validator {
  (value: unknown): boolean
  readonly errors?: null | readonly ErrorObject[]
}

/** What writeValidators() writes: a module that makes validators by the keys of their schemas, with the functions that formats accept by. */
type WrittenValidators = (accepts: FormatChecks) => Readonly<Record<string, Validator>>
type FormatChecks = Readonly<Record<string, (text: string) => boolean>>

/** The build writes it with writeValidators(); without it, and for schemas of external plugins, Ajv compiles when a schema is first used. */
const writtenFile = fileURLToPath(new URL('written-validators.cjs', import.meta.url))

/** Throws for an invalid schema. */
export const createValidator = (schema: JsonSchema, file = writtenFile): Validator =>
  readWritten(file)?.[keyOf(schema)] ?? (ajv ??= createAjv({ code: { optimize: false } })).compile(schema)

let ajv: Ajv | undefined

/** Of the files by their paths: undefined where there is none. */
const written = new Map<string, ReturnType<WrittenValidators> | undefined>()

/**
 * Ajv takes 100 ms to load and to compile the schemas of a start, a fifth of it; the written module takes 3 ms. Undefined without the
 * module, or where it is damaged.
 */
const readWritten = (file: string): ReturnType<WrittenValidators> | undefined => {
  if (!written.has(file)) written.set(file, loadWritten(file))
  return written.get(file)
}

const loadWritten = (file: string): ReturnType<WrittenValidators> | undefined => {
  try {
    return (createRequire(import.meta.url)(file) as WrittenValidators)(formatChecks) // as writeValidators() writes it
  } catch {
    return undefined
  }
}

/** Writes validators of the schemas, compiled, for createValidator(). The build alone loads what compiles them. */
export const writeValidators = async (schemas: readonly ObjectSchema[], file = writtenFile): Promise<void> => {
  const [{ _ }, { default: standalone }] = await Promise.all([import('ajv'), import('ajv/dist/standalone/index.js')])
  const compiler = createAjv({ code: { source: true, optimize: true, formats: _`formats` } })
  const keys = schemas.map(toJsonSchema).map(schema => {
    const key = keyOf(schema)
    if (compiler.getSchema(key) === undefined) compiler.addSchema(schema, key)
    return key
  })
  const code = standalone.default(compiler, Object.fromEntries(keys.map(key => [key, key])))
  writeFileSync(file, `module.exports = formats => {\nconst exports = {}\n${code}\nreturn exports\n}\n`)
}

const formatChecks: FormatChecks = Object.fromEntries(Object.entries(formats).map(([name, { accepts }]) => [name, accepts]))

/** For schemas of options. The types check those of the gateway, and the meta schema would take 30 ms. */
const createAjv = (options: Options): Ajv => {
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

/** Equal for equal schemas alone. */
const keyOf = (schema: JsonSchema): string => createHash('sha256').update(JSON.stringify(schema)).digest('hex')
