import type { ErrorObject } from 'ajv'
import type { Path } from '../../plugin/plugin.ts'
import { parseHexFormat, describeHexSize } from './hex-format.ts'
import { hintFor } from './did-you-mean-hint.ts'
import { objectKeywords } from './object-keywords.ts'
import type { Rule } from './table-types.ts'
import { isJsonArray, isObject, typesOf } from './object-members.ts'
import type { JsonObject } from './object-members.ts'

/** What is wrong with a value, in words. */
export interface Issue {
  /** From the value that was checked to the one that is wrong. */
  readonly path: Path
  /** Goes behind the name of the place: ` must be ..., not ...`. */
  readonly message: string
  /** What may have been meant. */
  readonly hint?: string
}

/** Retells an error of Ajv (with its `verbose` option). */
export const issueOfAjvError = (error: ErrorObject): Issue => {
  const path = parseJsonPointer(error.instancePath)
  const rule = (error.parentSchema ?? {}) as Rule // what Ajv was given
  const describe = issueDescriptions[error.keyword]
  if (describe !== undefined) return { path, ...describe(rule, error.data) }
  if (error.keyword === 'additionalProperties') return unknownMember(path, rule, error.params['additionalProperty'])
  const createCheck = objectKeywords[error.keyword]?.createCheck(rule)
  return { path, message: createCheck?.(error.data as JsonObject) ?? ' is not valid' } // these keywords are about objects only
}

/** `params[0].topics[1]`; a path into a file has no root. */
export const formatPath = (root: string, path: Path): string =>
  path.reduce<string>((text, step) => {
    if (typeof step === 'number') return `${text}[${step}]`
    if (!/^\w{1,40}$/.test(step)) return `${text}[${formatValue(step)}]`
    return text === '' ? step : `${text}.${step}`
  }, root)

/** A value as it may stand in a message: short, printable, on one line. */
export const formatValue = (value: unknown): string => {
  if (isJsonArray(value)) return 'an array'
  if (isObject(value)) return 'an object'
  if (typeof value !== 'string') return String(value)
  if (value.length <= 40 && printableAscii.test(value)) return `"${value}"`
  const text = JSON.stringify(value.length > 40 ? `${value.slice(0, 37)}...` : value)
  return text.replace(/[^ -~]/g, letter => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

const printableAscii = /^[ !#-[\]-~]*$/

/** What a rule wants: `an address (20 bytes of hex with 0x) or an array`. */
export const describeRule = (rule: Rule): string => {
  const wants = typesOf(rule).map((type, i) => describeTypeOf(type, rule, i === 0 ? rule.label : undefined))
  return [...new Set(wants)].join(' or ')
}

/** A text in hex or a tag, as wanted; kept, since callers repeat their mistakes, and putting it into words takes 2 us. */
const describeTextRule = (rule: Rule): string => {
  const known = textRuleDescriptions.get(rule)
  if (known !== undefined) return known
  const wanted = describeTypeOf('string', rule, rule.label)
  textRuleDescriptions.set(rule, wanted)
  return wanted
}

const textRuleDescriptions = new WeakMap<Rule, string>()

const describeTypeOf = (type: string, rule: Rule, label: string | undefined): string => {
  if (type !== 'string' || rule.hex === undefined) return label ?? describeEnum(rule) ?? typeNames[type] ?? type
  const forms = describeHexFormats(rule)
  return label === undefined ? forms : `${label} (${forms})`
}

const typeNames: Readonly<Record<string, string>> = {
  string: 'a string',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  array: 'an array',
  object: 'an object',
}

const describeEnum = ({ enum: values }: Rule): string | undefined => values && `one of ${values.filter(one => one !== null).join(', ')}`

const describeHexFormats = ({ hex = [], tags = [] }: Rule): string => {
  const forms = [hex]
    .flat()
    .map(name => parseHexFormat(name).description)
    .join(' or ')
  return tags.length === 0 ? forms : `${forms}, or one of ${tags.join(', ')}`
}

type IssueText = Omit<Issue, 'path'>

const mustBe = (rule: Rule, found: unknown): IssueText => ({ message: ` must be ${describeRule(rule)}, not ${formatValue(found)}` })

/** A JSON number where hex is wanted: how to write it. */
const hexHint = ({ hex = [] }: Rule, found: unknown): Pick<Issue, 'hint'> =>
  Number.isSafeInteger(found) && Number(found) >= 0 && [hex].flat().some(form => form.startsWith('number'))
    ? { hint: `write "0x${Number(found).toString(16)}"` }
    : {}

const tooFewOf =
  (unit: string, limit: keyof Rule) =>
  (rule: Rule, found: unknown): IssueText => ({ message: ` has ${lengthOf(found)} ${unit}, fewer than the ${String(rule[limit])} needed` })

const tooManyOf =
  (unit: string, limit: keyof Rule) =>
  (rule: Rule, found: unknown): IssueText => ({ message: ` has ${lengthOf(found)} ${unit}, more than the ${String(rule[limit])} allowed` })

const lengthOf = (found: unknown): number => (typeof found === 'string' || isJsonArray(found) ? found.length : 0)

const describeHexIssue = (rule: Rule, found: unknown): IssueText => {
  const text = String(found)
  const { tags = [], unsupportedTags } = rule
  if (unsupportedTags?.tags.includes(text)) {
    return { message: `: the tag "${text}" is not supported for ${unsupportedTags.where}; ${tagAdvice(text, tags)}` }
  }
  return { message: ` must be ${describeTextRule(rule)}, not ${formatValue(text)}${describeHexSize(text)}`, ...hintFor(text, tags) }
}

const tagAdvice = (tag: string, others: readonly string[]): string => {
  const instead = substituteTags[tag]
  if (instead !== undefined && others.includes(instead)) return `use "${instead}" instead`
  return others.length === 0 ? 'use a number' : `use a number or one of ${others.join(', ')}`
}

/** The tag that comes nearest in meaning (contract 4.3.3). */
const substituteTags: Readonly<Record<string, string>> = { safe: 'finalized', finalized: 'safe', pending: 'latest' }

const issueDescriptions: Readonly<Record<string, (rule: Rule, found: unknown) => IssueText>> = {
  type: (rule, found) => ({ ...mustBe(rule, found), ...hexHint(rule, found) }),
  pattern: (rule, found) => ({ message: ` must be ${describeTextRule(rule)}, not ${formatValue(found)}` }),
  enum: (rule, found) => ({ ...mustBe(rule, found), ...hintFor(String(found), rule.enum?.map(String) ?? []) }),
  hex: describeHexIssue,
  minimum: (rule, found) => ({ message: ` must be at least ${rule.minimum}, not ${formatValue(found)}` }),
  maximum: (rule, found) => ({ message: ` must be at most ${rule.maximum}, not ${formatValue(found)}` }),
  minLength: tooFewOf('characters', 'minLength'),
  maxLength: tooManyOf('characters', 'maxLength'),
  minItems: tooFewOf('elements', 'minItems'),
  maxItems: tooManyOf('elements', 'maxItems'),
  // Without the number found: to list the keys of an object takes 13 ms per MB, and the check has just done it.
  maxProperties: rule => ({ message: ` has more than the ${rule.maxProperties} members allowed` }),
}

const unknownMember = (path: Path, rule: Rule, name: string): Issue => {
  const known = Object.keys(rule.properties ?? {})
  const hint = hintFor(name, known)
  const knownMembers = hint.hint === undefined ? `; ${rule.label ?? 'it'} may have ${known.join(', ')}` : ''
  return { path: [...path, name], message: ` is unknown${knownMembers}`, ...hint }
}

const parseJsonPointer = (pointer: string): Path =>
  pointer
    .split('/')
    .slice(1)
    .map(step => step.replaceAll('~1', '/').replaceAll('~0', '~'))
    .map(step => (/^\d{1,9}$/.test(step) ? Number(step) : step))
