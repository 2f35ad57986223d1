import type { ErrorObject } from 'ajv'
import type { Path } from '../plugin.ts'
import type { ObjectSchema, Schema } from '../schema.ts'
import { formats } from './formats.ts'
import { childOf, schemaAt } from './json-schema.ts'
import { parsePointer, pointer } from './path.ts'
import { didYouMean, nearest, suggest } from '../nearest.ts'
import type { Problem } from './problem.ts'
import type { Source } from './source.ts'
import { describeFound, describeType, nameOf } from './words.ts'

/** A map of options inside a file. */
export interface Site<S extends ObjectSchema = ObjectSchema> {
  readonly source: Source
  /** Where in the file the map stands. */
  readonly path: Path
  /** Whose options they are; empty for the file itself. */
  readonly name: string
  readonly schema: S
}

/** Ajv's errors about the map at the site, as problems in our words: one for each mistake. */
export const retell = (errors: readonly ErrorObject[], site: Site): readonly Problem[] => {
  const unknown = errors.filter(error => error.keyword === 'additionalProperties')
  const missing = errors.filter(error => error.keyword === 'required').filter(error => !unknown.some(other => isMeant(error, other, site)))
  const others = errors.filter(({ keyword }) => keyword !== 'additionalProperties' && keyword !== 'required')
  // One wrong value can break several keywords.
  const wrong = new Set(others.map(error => error.instancePath))
  return [
    ...unknown.map(error => unknownKey(site, parsePointer(error.instancePath), unknownOf(error))),
    ...missing.map(error => missingKey(site, parsePointer(error.instancePath), missingOf(error))),
    ...[...wrong].map(place => wrongValue(site, parsePointer(place))),
  ]
}

const unknownOf = ({ params }: ErrorObject): string => String(params['additionalProperty'])
const missingOf = ({ params }: ErrorObject): string => String(params['missingProperty'])

/** Is the missing key there, but mistyped? */
const isMeant = (missing: ErrorObject, unknown: ErrorObject, site: Site): boolean =>
  missing.instancePath === unknown.instancePath &&
  nearest(unknownOf(unknown), keysAt(site, parsePointer(unknown.instancePath))) === missingOf(missing)

const keysAt = ({ schema }: Site, inside: Path): readonly string[] => {
  const here = schemaAt(schema, inside)
  return Object.keys(here?.type === 'object' ? (here.properties ?? {}) : {})
}

const unknownKey = (site: Site, inside: Path, key: string): Problem => {
  const known = keysAt(site, inside)
  const owner = nameOf(site.name, inside)
  const message = owner ? `${owner} has no ${site.name ? 'option' : 'key'} \`${key}\`` : `unknown key \`${key}\``
  const hint = didYouMean(key, known) ?? (known.length > 0 ? `known are: ${known.join(', ')}` : 'it has none')
  return site.source.problemAtKey([...site.path, ...inside, key], message, hint)
}

const missingKey = ({ source, path, name, schema }: Site, inside: Path, key: string): Problem => {
  const wanted = childOf(schemaAt(schema, inside), key)
  const message = `${nameOf(name, inside) || 'the file'} needs \`${key}\`${wanted ? `: ${describeType(wanted)}` : ''}`
  return source.problemAtKey([...path, ...inside, key], message, wanted?.description)
}

const wrongValue = ({ source, path, name, schema }: Site, inside: Path): Problem => {
  const place = [...path, ...inside]
  const wanted = schemaAt(schema, inside) ?? {}
  // A URL may hold a provider's key or a password.
  const isUrl = wanted.type === 'string' && (wanted.format === 'url' || wanted.format === 'redis')
  const found = isUrl ? '' : `, not ${describeFound(source, place)}`
  const message = `${nameOf(name, inside) || 'the file'} must be ${describeType(wanted)}${found}`
  return source.problem(place, message, mend(source, place, wanted))
}

/** What was probably meant by a value that is refused. */
const mend = (source: Source, path: Path, wanted: Schema): string | undefined => {
  const value = source.at(path)
  const text = source.texts.get(pointer(path))
  if (text && text.values.length > 0) return text.bare ? undefined : quoted(wanted)
  if (wanted.type === 'boolean') return suggest(booleans[String(value).toLowerCase()])
  if (wanted.type !== 'string') return undefined
  if (wanted.format === 'url') return 'for example https://node.example.org/KEY'
  const mendText = wanted.format && formats[wanted.format].mend
  if (typeof value === 'number') return mendText && 'the unit is missing'
  if (typeof value !== 'string') return undefined
  return wanted.enum ? didYouMean(value, wanted.enum) : suggest(mendText?.(value))
}

/** Only an unquoted variable can become a number or a boolean. */
const quoted = (wanted: Schema): string | undefined =>
  ['integer', 'number', 'boolean'].includes(wanted.type ?? '')
    ? 'a variable in quotes stays a text: write it without them, on a line of its own'
    : undefined

const booleans: Readonly<Record<string, string>> = { yes: 'true', on: 'true', no: 'false', off: 'false' }
