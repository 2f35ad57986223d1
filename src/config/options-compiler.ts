import { SchemaCompiler, loadAjv, writtenFolder } from '../util/schema-compiler.ts'
import { formats } from './formats.ts'

const accepts = Object.fromEntries(Object.entries(formats).map(([name, format]) => [name, format.accepts]))

/** Compiles schemas of options. The types check those of the gateway, and the meta schema would take 30 ms. */
export const createOptionsCompiler = (folder = writtenFolder('options')): SchemaCompiler =>
  new SchemaCompiler({
    folder,
    scope: { formats: accepts },
    createAjv(isWritten) {
      const { Ajv, _ } = loadAjv()
      return new Ajv({
        strict: true,
        allErrors: true,
        useDefaults: true,
        messages: false,
        meta: false,
        validateSchema: false,
        formats: accepts,
        code: isWritten ? { source: true, optimize: true, formats: _`formats` } : { optimize: false },
      })
    },
  })

export const optionsCompiler = createOptionsCompiler()
