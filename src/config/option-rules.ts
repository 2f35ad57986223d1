import type { ObjectSchema, Schema } from '../plugin/options-schema.ts'
import type { Path } from '../plugin/plugin.ts'
import { formatAlternatives } from '../util/did-you-mean.ts'
import { isJsonObject } from '../util/json.ts'
import { valueAt } from '../util/json-path.ts'
import { formatOptionPath } from './ajv-errors.ts'
import type { OptionsLocation } from './ajv-errors.ts'
import { isKebabCase, parseQuantity } from './formats.ts'
import type { Problem } from './problem.ts'
import { walkOptions } from './schema.ts'
import type { OptionNode } from './schema.ts'

/** What breaks the keywords of a schema that Ajv does not know. A value of the wrong type has been reported already. */
export const findBrokenRules = (location: OptionsLocation): readonly Problem[] =>
  [...walkOptions(location.source.valueAt(location.namePath), location.schema)].flatMap(node => [
    ...minimumProblems(location, node),
    ...requirementProblems(location, node),
    ...choiceProblems(location, node),
    ...entryProblems(location, node),
  ])

const minimumProblems = ({ source, namePath, owner }: OptionsLocation, { schema, path: inside }: OptionNode): readonly Problem[] => {
  if (schema?.type !== 'string' || schema.minimum === undefined) return []
  const path = [...namePath, ...inside]
  const [value, minimum = 0] = [source.textAt(path) ?? '', schema.minimum].map(parseQuantity)
  if (value === undefined || value >= minimum) return []
  // One byte or one millisecond.
  const bound = minimum === 1 ? 'greater than 0' : `at least ${schema.minimum}`
  return [source.problemAt(path, `${formatOptionPath(owner, inside)} must be ${bound}, not ${source.describeValueAt(path)}`)]
}

/** Of a variable, too, which has the text `true`. */
const isOff = (value: unknown): boolean => value === undefined || String(value) === 'false' || (Array.isArray(value) && value.length === 0)

const requirementProblems = ({ source, namePath, owner }: OptionsLocation, { value, schema, path }: OptionNode): readonly Problem[] => {
  if (schema?.requires === undefined || isOff(value)) return []
  const { options, hint, isIdle = false } = schema.requires
  const required = options.map((option): Path => (option.includes('.') ? option.split('.') : [...path.slice(0, -1), option]))
  if (required.some(each => !isOff(valueAt(source.valueAt(namePath), each)))) return []
  const names = required.map(each => formatOptionPath(owner, each))
  const message = `${formatOptionPath(owner, path)} ${isIdle ? 'has no effect without' : 'requires'} ${names.join(' or ')}`
  const place = [...namePath, ...path]
  return [typeof value === 'boolean' ? source.problemAt(place, message, hint) : source.problemAtKey(place, message, hint)]
}

const choiceProblems = ({ source, namePath, owner }: OptionsLocation, { value, schema, path }: OptionNode): readonly Problem[] => {
  const choice = objectSchema(schema)?.exactlyOneOf
  if (choice === undefined || !isJsonObject(value)) return []
  const { options, hint } = choice
  const name = formatOptionPath(owner, path)
  const [first, ...others] = options.filter(option => value[option] !== undefined)
  if (first === undefined) return [source.problemAtKey([...namePath, ...path], `${name} must have ${formatAlternatives(options)}`, hint)]
  const list = `${options.slice(0, -1).join(', ')} and ${options.at(-1)}`
  return others.map(other =>
    source.problemAtKey([...namePath, ...path, other], `${name} must have one of ${list}: ${first} and ${other} are given`),
  )
}

const entryProblems = ({ source, namePath, owner }: OptionsLocation, { value, schema, path }: OptionNode): readonly Problem[] => {
  const entries = objectSchema(schema)?.entries
  if (entries === undefined || !(value === null || isJsonObject(value))) return []
  const { noun, example } = entries
  const place = [...namePath, ...path]
  const names = Object.keys(value ?? {})
  if (names.length === 0)
    return [source.problemAtKey(place, `${formatOptionPath(owner, path)} must contain at least one ${noun}`, `for example ${example}`)]
  return names
    .filter(name => !isKebabCase(name))
    .map(name => source.problemAtKey([...place, name], `the ${noun} name \`${name}\` must be kebab-case`))
}

const objectSchema = (schema: Schema | undefined): ObjectSchema | undefined => (schema?.type === 'object' ? schema : undefined)
