import { Ajv2020 } from 'ajv/dist/2020.js'

/** Holds responses against an OpenAPI document; returns what is wrong with one, or undefined. */
export const openApiChecker = (document: object) => {
  const ajv = new Ajv2020({ strict: false, validateFormats: false })
  ajv.addSchema({ ...document, $id: 'api' })
  return (path: string, method: string, { status, json }: { readonly status: number; readonly json: unknown }): string | undefined => {
    const pointer = `api#/paths/${path.replaceAll('/', '~1')}/${method}/responses/${status}/content/application~1json/schema`
    const validate = ajv.getSchema(pointer)
    if (validate === undefined) return `the document has no response ${status}`
    return validate(json) ? undefined : ajv.errorsText(validate.errors)
  }
}
