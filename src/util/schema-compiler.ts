import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type * as AjvModule from 'ajv'
import type { Ajv, AnySchemaObject, ErrorObject, ValidateFunction } from 'ajv'

/** Adds the defaults to the value; false with `errors`. */
export interface Validator {
  (value: unknown): boolean
  readonly errors?: null | readonly ErrorObject[]
}

/**
 * Ajv, loaded where a schema is first compiled: most gateways and commands can do without. In the bundle it is one file of its own, which takes a
 * third of the time of the package's 64.
 */
export const loadAjv = (): typeof AjvModule => createRequire(import.meta.url)('ajv') as typeof AjvModule // what the package exports

/** What Ajv's package exports there. */
interface Standalone {
  default(ajv: Ajv, validate: ValidateFunction): string
}

interface SchemaCompilerOptions {
  /** Of the written modules. */
  readonly folder: string
  /** What the code of a schema uses beside itself, by the name that the code has for it. */
  readonly scope: Readonly<Record<string, unknown>>
  /** `isWritten`: its code is to be written. */
  createAjv(isWritten: boolean): Ajv
}

/**
 * Schemas as functions. The build writes a module for each schema that is known to it; the others are compiled by Ajv, which takes 14 ms to load
 * and 0.2 to 6 ms for the rule of a parameter, where a module takes 0.2 ms.
 */
export class SchemaCompiler {
  readonly #options: SchemaCompilerOptions
  #ajv: Ajv | undefined

  constructor(options: SchemaCompilerOptions) {
    this.#options = options
  }

  /** Throws for an invalid schema. */
  compile(schema: AnySchemaObject): Validator {
    return this.#readWritten(schema) ?? (this.#ajv ??= this.#options.createAjv(false)).compile(schema)
  }

  isWritten(schema: AnySchemaObject): boolean {
    return existsSync(this.fileOf(schema))
  }

  /** The module of one schema: a command loads only those of what it reads. */
  fileOf(schema: AnySchemaObject): string {
    return join(this.#options.folder, `${hashOf(schema)}.cjs`)
  }

  /** Writes the modules. The build alone loads what compiles them. */
  write(schemas: readonly AnySchemaObject[]): void {
    const { folder, scope, createAjv } = this.#options
    const standalone = createRequire(import.meta.url)('ajv/dist/standalone') as Standalone
    const ajv = createAjv(true)
    rmSync(folder, { recursive: true, force: true })
    mkdirSync(folder, { recursive: true })
    for (const [file, schema] of new Map(schemas.map(each => [this.fileOf(each), each]))) {
      const code = standalone.default(ajv, ajv.compile(schema))
      const names = Object.keys(scope).join(', ')
      writeFileSync(file, `module.exports = ({ ${names} }) => {\nconst module = { exports: {} }\n${code}\nreturn module.exports\n}\n`)
    }
  }

  /** Undefined where there is no such module, or a damaged one. */
  #readWritten(schema: AnySchemaObject): Validator | undefined {
    try {
      const create = createRequire(import.meta.url)(this.fileOf(schema)) as (scope: SchemaCompilerOptions['scope']) => Validator // as write() writes it
      return create(this.#options.scope)
    } catch {
      return undefined
    }
  }
}

/** A folder of written modules. */
export const writtenFolder = (name: string): string => fileURLToPath(new URL(`validators/${name}`, import.meta.url))

/** Equal for equal schemas alone. */
const hashOf = (schema: AnySchemaObject): string => createHash('sha256').update(JSON.stringify(schema)).digest('hex')
