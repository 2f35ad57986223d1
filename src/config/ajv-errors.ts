import type { ErrorObject } from 'ajv'
import type { Path } from '../util/json.ts'
import type { ArraySchema, NumberSchema, ObjectSchema, Schema, StringSchema } from '../plugin/options-schema.ts'
import { isJsonObject } from '../util/json.ts'
import { jsonPointer, parseJsonPointer } from '../util/json-path.ts'
import { describeSchema, formatOptionValue } from './describe-options.ts'
import { formats } from './formats.ts'
import { closestMatch, didYouMean, formatSuggestion } from '../util/did-you-mean.ts'
import type { Problem } from './problem.ts'
import { childSchema, formatOptionPath, isFixedPath, secrecyOf, schemaAt, walkSchema } from './schema.ts'
import { formatCodePoint } from './yaml-errors.ts'
import type { ExpandedText, YamlFile } from './yaml-file.ts'

/** A map of options inside a file. */
export interface OptionsLocation<S extends ObjectSchema = ObjectSchema> {
  readonly source: YamlFile
  /** The path of the map in the file. */
  readonly namePath: Path
  /** Whose options they are; empty for the file itself. */
  readonly owner: string
  readonly schema: S
  /** The options of other plugins, by name: a key may have been written in the wrong map. */
  readonly otherOptions?: Readonly<Record<string, ObjectSchema>>
  /** Another kind of file, whose keys may have been written at the top of this one. */
  readonly otherFile?: { readonly name: string; readonly schema: ObjectSchema }
}

/** Ajv's errors about the map at the location, as problems: one for each mistake. */
export const problemsOfAjvErrors = (errors: readonly ErrorObject[], location: OptionsLocation): readonly Problem[] => {
  const unknown = errors.filter(error => error.keyword === 'additionalProperties')
  const missing = errors
    .filter(error => error.keyword === 'required')
    .filter(error => !unknown.some(other => isMistyped(error, other, location)))
  const valueErrors = errors.filter(({ keyword }) => keyword !== 'additionalProperties' && keyword !== 'required')
  // One wrong value can break several keywords.
  const wrongPointers = new Set(valueErrors.map(error => error.instancePath))
  return [
    ...unknown.map(error => unknownKeyProblem(location, parseJsonPointer(error.instancePath), unknownPropertyOf(error))),
    ...missing.map(error => missingKeyProblem(location, parseJsonPointer(error.instancePath), missingPropertyOf(error))),
    ...[...wrongPointers].map(place => wrongValueProblem(location, parseJsonPointer(place))),
  ]
}

const unknownPropertyOf = ({ params }: ErrorObject): string => String(params['additionalProperty'])
const missingPropertyOf = ({ params }: ErrorObject): string => String(params['missingProperty'])

/** Is the missing key there, but mistyped? */
const isMistyped = (missing: ErrorObject, unknown: ErrorObject, location: OptionsLocation): boolean =>
  missing.instancePath === unknown.instancePath &&
  closestMatch(unknownPropertyOf(unknown), knownKeysAt(location, parseJsonPointer(unknown.instancePath))) === missingPropertyOf(missing)

const knownKeysAt = ({ schema }: OptionsLocation, inside: Path): readonly string[] => {
  const here = schemaAt(schema, inside)
  return Object.keys(here?.type === 'object' ? (here.properties ?? {}) : {})
}

const unknownKeyProblem = (location: OptionsLocation, inside: Path, key: string): Problem => {
  const known = knownKeysAt(location, inside)
  const owner = formatOptionPath(location.owner, inside)
  const message = `unknown ${location.owner ? 'option' : 'key'} \`${key}\`${owner && ` of ${owner}`}`
  const hint =
    hintOfOuterMap(location, inside, key) ??
    suggestKey(key, known) ??
    hintOfOwner(location, key) ??
    hintOfOtherOwner(location, key) ??
    hintOfOtherFile(location, inside, key) ??
    hintOfThousands(key) ??
    describeKeys(known)
  return location.source.problemAtKey([...location.namePath, ...inside, key], message, hint)
}

/** The known key that was probably meant; it may look the same, where a letter is one of another alphabet. */
const suggestKey = (key: string, known: readonly string[]): string | undefined => {
  const [lookAlike] = /\P{ASCII}/u.exec(key) ?? []
  const suggestion = didYouMean(key, known)
  return suggestion && lookAlike ? `${suggestion} (the key contains the character ${formatCodePoint(lookAlike)})` : suggestion
}

/** A key of a map around this one: indented too far. */
const hintOfOuterMap = (location: OptionsLocation, inside: Path, key: string): string | undefined => {
  const outer = inside.map((_, i) => inside.slice(0, i)).findLast(path => knownKeysAt(location, path).includes(key))
  if (outer === undefined) return undefined
  const place = formatOptionPath(location.owner, outer)
  return place === '' ? `\`${key}\` belongs at the top of the file` : `\`${key}\` belongs in \`${place}\``
}

/** An option of another plugin. */
const hintOfOtherOwner = ({ otherOptions = {} }: OptionsLocation, key: string): string | undefined => {
  const owners = Object.keys(otherOptions).filter(name => Object.hasOwn(otherOptions[name]?.properties ?? {}, key))
  return owners.length > 0 ? `\`${key}\` is an option of ${owners.map(name => `\`${name}\``).join(' and ')}` : undefined
}

/** A key of another kind of file. */
const hintOfOtherFile = ({ otherFile }: OptionsLocation, inside: Path, key: string): string | undefined =>
  inside.length === 0 && otherFile && Object.hasOwn(otherFile.schema.properties ?? {}, key)
    ? `\`${key}\` belongs in ${otherFile.name}`
    : undefined

/** In braces, the comma of 3,000,000 ends a value. */
const hintOfThousands = (key: string): string | undefined =>
  /^\d{3}$/.test(key) ? 'write an integer without separators of thousands, such as 3000000' : undefined

/** A key that stands in the wrong map of these options. */
const hintOfOwner = ({ schema, owner }: OptionsLocation, key: string): string | undefined => {
  const node = [...walkSchema(schema)].find(({ path }) => path.length > 1 && path.at(-1) === key && isFixedPath(path))
  return node && `\`${key}\` belongs in \`${formatOptionPath(owner, node.path.slice(0, -1))}\``
}

const missingKeyProblem = ({ source, namePath, owner, schema }: OptionsLocation, inside: Path, key: string): Problem => {
  const wanted = childSchema(schemaAt(schema, inside), key)
  const message = `${formatOptionPath(owner, inside) || 'the file'} requires \`${key}\`${wanted ? `: ${describeSchema(wanted)}` : ''}`
  return source.problemAtKey([...namePath, ...inside, key], message, wanted?.description)
}

const wrongValueProblem = ({ source, namePath, owner, schema }: OptionsLocation, inside: Path): Problem => {
  const path = [...namePath, ...inside]
  const wanted = schemaAt(schema, inside) ?? {}
  const found = holdsSecret(wanted) ? '' : `, not ${source.describeValueAt(path)}`
  const message = `${formatOptionPath(owner, inside) || 'the file'} must be ${describeSchema(wanted)}${found}`
  return source.problemAt(path, message, suggestFix(source, path, wanted))
}

/** A URL may hold a provider's key or a password. */
const holdsSecret = (wanted: Schema): boolean =>
  wanted.type === 'object'
    ? typeof wanted.additionalProperties === 'object' && holdsSecret(wanted.additionalProperties)
    : secrecyOf(wanted) !== undefined

/** What was probably meant by a value that is not accepted. */
const suggestFix = (source: YamlFile, path: Path, wanted: Schema): string | undefined => {
  const value = source.valueAt(path)
  const text = source.expandedTexts.get(jsonPointer(path))
  if (text && text.values.length > 0)
    return surroundedVariableHint(text, value) ?? (text.isBareVariable ? undefined : quotedVariableHint(wanted))
  if (typeof value === 'string' && /^[\u2018-\u201f\u00ab]/.test(value)) return `quotes must be straight ("), not ${formatCodePoint(value)}`
  if (wanted.type === 'boolean') return formatSuggestion(booleanSpellings[String(value).toLowerCase()])
  if (wanted.type === 'integer' && typeof value === 'string') return suggestInteger(value, wanted)
  if (wanted.type === 'array') return suggestList(value, wanted)
  if (wanted.type === 'number' && /^\d+(\.\d+)? *%$/.test(String(value))) return `write ${parseFloat(String(value))}`
  if (wanted.type === 'object') return suggestMap(value, wanted, path.length === 0)
  return wanted.type === 'string' ? suggestText(value, wanted) : undefined
}

const suggestText = (value: unknown, { enum: values, format, examples: [example] = [] }: StringSchema): string | undefined => {
  const { suggest, explain, example: formatExample } = format ? formats[format] : {}
  const shownExample = example ?? formatExample
  const hint = shownExample && `for example ${shownExample}`
  if (typeof value === 'number' && Number.isFinite(value))
    return formatSuggestion(suggest?.(String(value))) ?? (suggest && !formatExample ? 'the unit is missing' : hint)
  if (typeof value !== 'string') return hint
  if (values) return didYouMean(value, values)
  return formatSuggestion(suggest?.(value)) ?? explain?.(value) ?? hint
}

/** An integer in hexadecimal, with separators of thousands, or with a suffix for thousands or millions. */
const suggestInteger = (text: string, { minimum = -Infinity, maximum = Infinity }: NumberSchema): string | undefined => {
  const [, digits = text, suffix = ''] = /^([\d_,.' ]+?) *([kmgb])$/i.exec(text) ?? []
  const isGrouped = /^\d{1,3}(([_,' ]\d{3})+|(\.\d{3}){2,})$/.test(digits)
  const factor = integerSuffixes[suffix.toLowerCase()] ?? 1
  const product = Number(isGrouped ? digits.replace(/\D/g, '') : digits) * factor
  const number = Math.round(product)
  // The product of 2.3 and a million is not exact.
  const isInteger = digits.trim() !== '' && Number.isSafeInteger(number) && Math.abs(product - number) < 1e-6
  const isAccepted = isInteger && number >= minimum && number <= maximum
  return isAccepted ? `write ${number}` : undefined
}

const integerSuffixes: Readonly<Record<string, number>> = { k: 1e3, m: 1e6, g: 1e9, b: 1e9 }

/** A list, or one value, in place of a map. */
const suggestMap = (value: unknown, { properties, required = [] }: ObjectSchema, isFile: boolean): string | undefined => {
  if (Array.isArray(value) && properties === undefined) return 'write entries as `NAME: VALUE`, without dashes'
  if (typeof value === 'string' && required.length > 0 && !isFile) return `write { ${required.map(key => `${key}: …`).join(', ')} }`
  return properties && describeKeys(Object.keys(properties))
}

/** A map, or one item, in place of a list of items; or no items. */
const suggestList = (value: unknown, { items, examples: [example] = [] }: ArraySchema): string | undefined => {
  if (isJsonObject(value)) return 'write a list: each item begins with a dash and a space'
  if (Array.isArray(value) && value.length === 0 && example !== undefined) return `for example ${formatOptionValue(example)}`
  if (typeof value !== 'string' || items.type !== 'string' || value === '') return undefined
  if (items.format !== undefined && !formats[items.format].accepts(value)) return undefined
  return `write [${/^[\w.-]+$/.test(value) ? value : JSON.stringify(value)}]`
}

/** As from an environment file whose reader does not remove quotes. */
const surroundedVariableHint = ({ variables }: ExpandedText, value: unknown): string | undefined =>
  typeof value === 'string' && /^["'\s]|["'\s]$/.test(value)
    ? `the value of ${variables.map(name => `\${${name}}`).join(' and ')} has quotes or spaces around it`
    : undefined

/** Only an unquoted variable can become a number or a boolean. */
const quotedVariableHint = (wanted: Schema): string | undefined =>
  ['integer', 'number', 'boolean'].includes(wanted.type ?? '')
    ? 'a variable in quotes is always a string: write it without quotes, on a line of its own'
    : undefined

const describeKeys = (keys: readonly string[]): string => (keys.length > 0 ? `known keys: ${keys.join(', ')}` : 'it has no keys')

/** With `true` and `false` themselves, which may stand in quotes. */
const booleanSpellings: Readonly<Record<string, string>> = {
  true: 'true',
  yes: 'true',
  on: 'true',
  1: 'true',
  false: 'false',
  no: 'false',
  off: 'false',
  0: 'false',
}
