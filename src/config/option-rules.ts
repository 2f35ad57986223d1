import type { ObjectSchema, Schema, UsualRange } from '../plugin/options-schema.ts'
import { formatAlternatives } from '../util/did-you-mean.ts'
import { isJsonObject } from '../util/json.ts'
import { valueAt } from '../util/json-path.ts'
import type { OptionsLocation } from './ajv-errors.ts'
import { parseQuantity } from './formats.ts'
import type { Problem } from './problem.ts'
import { entryNameOf, formatOptionPath, requiredPaths, walkOptions } from './schema.ts'
import type { OptionNode } from './schema.ts'

/** What breaks the keywords of a schema that Ajv does not know. A value of the wrong type has been reported already. */
export const findBrokenRules = (location: OptionsLocation): readonly Problem[] =>
  applyRules([minimum, requires, exactlyOneOf, entries], location)

/** What is valid, but probably not meant: a warning each. */
export const findUnusualOptions = (location: OptionsLocation): readonly Problem[] =>
  applyRules([usual, usualMinLength, whenOthersHaveIt], location)

/** What a keyword says of one value. */
type KeywordRule = (location: OptionsLocation, node: OptionNode) => readonly Problem[]

const applyRules = (rules: readonly KeywordRule[], location: OptionsLocation): readonly Problem[] =>
  [...walkOptions(location.source.valueAt(location.namePath), location.schema)].flatMap(node => rules.flatMap(rule => rule(location, node)))

const minimum: KeywordRule = ({ source, namePath, owner }, { schema, path: inside }) => {
  if (schema?.type !== 'string' || schema.minimum === undefined) return []
  const path = [...namePath, ...inside]
  const [value, least = 0] = [source.textAt(path) ?? '', schema.minimum].map(parseQuantity)
  if (value === undefined || value >= least) return []
  // One byte or one millisecond.
  const bound = least === 1 ? 'greater than 0' : `at least ${schema.minimum}`
  return [source.problemAt(path, `${formatOptionPath(owner, inside)} must be ${bound}, not ${source.describeValueAt(path)}`)]
}

/** Of a variable, too, which has the text `true`. */
const isOff = (value: unknown): boolean =>
  value === undefined || String(value) === 'false' || (typeof value === 'object' && value !== null && Object.keys(value).length === 0)

const requires: KeywordRule = ({ source, namePath, owner }, { value, schema, path }) => {
  if (schema?.requires === undefined || isOff(value)) return []
  const { hint, isIdle = false } = schema.requires
  const required = requiredPaths(path, schema)
  if (required.some(each => !isOff(valueAt(source.valueAt(namePath), each)))) return []
  const names = required.map(each => formatOptionPath(owner, each))
  const message = `${formatOptionPath(owner, path)} ${isIdle ? 'has no effect without' : 'requires'} ${names.join(' or ')}`
  const place = [...namePath, ...path]
  return [typeof value === 'boolean' ? source.problemAt(place, message, hint) : source.problemAtKey(place, message, hint)]
}

const exactlyOneOf: KeywordRule = ({ source, namePath, owner }, { value, schema, path }) => {
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

const entries: KeywordRule = ({ source, namePath, owner }, { value, schema, path }) => {
  const entry = objectSchema(schema)?.entries
  if (entry === undefined || !(value === null || isJsonObject(value))) return []
  const { noun, example } = entry
  const { pattern, label } = entryNameOf(entry)
  const place = [...namePath, ...path]
  const names = Object.keys(value ?? {})
  if (names.length === 0)
    return [source.problemAtKey(place, `${formatOptionPath(owner, path)} must contain at least one ${noun}`, `for example ${example}`)]
  return names
    .filter(name => !new RegExp(pattern, 'u').test(name))
    .map(name => source.problemAtKey([...place, name], `the ${noun} name \`${name}\` must be ${label}`))
}

const usual: KeywordRule = ({ source, namePath, owner }, { schema, path: inside }) => {
  const path = [...namePath, ...inside]
  const text = source.textAt(path)
  if (schema?.type !== 'string' || schema.usual === undefined || text === undefined || isUsual(text, schema.usual)) return []
  const { min, max } = schema.usual
  const message = `${formatOptionPath(owner, inside)} is usually ${min} to ${max}, not ${source.describeValueAt(path)}`
  return [source.problemAt(path, message, schema.description)]
}

/** A text that is no quantity is a problem of its own. */
const isUsual = (text: string, { min, max }: UsualRange): boolean => {
  const value = parseQuantity(text)
  return value === undefined || value === 0 || (value >= (parseQuantity(min) ?? 0) && value <= (parseQuantity(max) ?? Infinity))
}

const usualMinLength: KeywordRule = ({ source, namePath, owner }, { schema, path: inside }) => {
  const path = [...namePath, ...inside]
  const text = source.textAt(path)
  if (schema?.type !== 'string' || schema.usualMinLength === undefined || !text || text.length >= schema.usualMinLength) return []
  const message = `${formatOptionPath(owner, inside)} is shorter than ${schema.usualMinLength} characters`
  return [source.problemAt(path, message, 'make one with `openssl rand -hex 32`')]
}

/** Of the items of a list, those without an option that another item has. */
const whenOthersHaveIt: KeywordRule = ({ source, namePath, owner }, { value, schema, path }) => {
  if (!Array.isArray(value) || schema?.type !== 'array' || schema.items.type !== 'object') return []
  const maps = [...value.entries()].filter(([, item]) => isJsonObject(item))
  return Object.entries(schema.items.properties ?? {}).flatMap(([key, { whenOthersHaveIt: consequence }]) => {
    const without = maps.filter(([, item]) => isJsonObject(item) && !Object.hasOwn(item, key))
    if (consequence === undefined || without.length === maps.length) return []
    return without.map(([index]) => {
      const itemPath = [...path, index]
      const message = `${formatOptionPath(owner, itemPath)} has no \`${key}\`, but another item has: ${consequence}`
      return source.problemAt([...namePath, ...itemPath], message, `add \`${key}\``)
    })
  })
}

const objectSchema = (schema: Schema | undefined): ObjectSchema | undefined => (schema?.type === 'object' ? schema : undefined)
