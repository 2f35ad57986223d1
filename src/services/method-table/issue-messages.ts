import type { ErrorObject } from 'ajv'
import { didYouMean } from '../../util/did-you-mean.ts'
import { isJsonArray, toHexQuantity } from '../../util/json.ts'
import type { JsonObject, Path } from '../../util/json.ts'
import { formatPath, formatValue, parseJsonPointer } from '../../util/json-path.ts'
import { getOrCreate } from '../../util/memoize.ts'
import { describeHexSize, parseHexFormat } from './normalize-params.ts'
import { objectKeywords, typesOf } from './rule-keywords.ts'
import type { Issue, Rule } from './table-types.ts'

/** The issue of an error of Ajv, which needs its option `verbose`. */
export const issueOfAjvError = (error: ErrorObject): Issue => {
  const path = parseJsonPointer(error.instancePath)
  const rule = (error.parentSchema ?? {}) as Rule // what Ajv was given
  const describe = issueDescriptions[error.keyword]
  if (describe !== undefined) return { path, ...describe(rule, error.data) }
  if (error.keyword === 'additionalProperties') return unknownMember(path, rule, error.params['additionalProperty'])
  const createCheck = objectKeywords[error.keyword]?.createCheck(rule)
  return { path, message: createCheck?.(error.data as JsonObject) ?? ' is not valid' } // these keywords apply only to objects
}

/** An issue in one line, with its hint. */
export const formatIssue = (root: string, { path, message, hint }: Issue): string =>
  `${formatPath(root, path)}${message}${hint === undefined ? '' : `; ${hint}`}`

/** What a rule accepts: `an address (20 bytes of hex with 0x) or an array`. */
export const describeRule = (rule: Rule): string => {
  const descriptions = typesOf(rule).map((type, i) => describeType(type, rule, i === 0 ? rule.label : undefined))
  return [...new Set(descriptions)].join(' or ')
}

/** The same for people who write the value: `a filter object {address, fromBlock, toBlock}`. */
export const describeRuleWithMembers = (rule: Rule): string => {
  const members = Object.keys(rule.properties ?? {})
  return members.length === 0 ? describeRule(rule) : `${describeRule(rule)} {${members.join(', ')}}`
}

/** What a rule for strings accepts; cached, because callers repeat their mistakes and a description takes 2 us. */
const describeStringRule = (rule: Rule): string => getOrCreate(stringRuleDescriptions, rule, () => describeType('string', rule, rule.label))

const stringRuleDescriptions = new WeakMap<Rule, string>()

const describeType = (type: string, rule: Rule, label: string | undefined): string => {
  if (type !== 'string' || rule.hex === undefined) return label ?? describeEnum(rule) ?? typeNames[type] ?? type
  const formats = describeHexFormats(rule)
  return label === undefined ? formats : `${label} (${formats})`
}

const typeNames: Readonly<Record<string, string>> = {
  string: 'a string',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  array: 'an array',
  object: 'an object',
}

const describeEnum = ({ enum: values }: Rule): string | undefined => values && `one of ${values.filter(value => value !== null).join(', ')}`

const describeHexFormats = ({ hex = [], tags = [] }: Rule): string => {
  const formats = [hex]
    .flat()
    .map(name => parseHexFormat(name).description)
    .join(' or ')
  return tags.length === 0 ? formats : `${formats}, or one of ${tags.join(', ')}`
}

type IssueText = Omit<Issue, 'path'>

const mustBe = (rule: Rule, found: unknown): IssueText => ({ message: ` must be ${describeRule(rule)}, not ${formatValue(found)}` })

/** For a JSON number where hex is required: how to write it. */
const hexHint = ({ hex = [] }: Rule, found: unknown): Pick<Issue, 'hint'> =>
  Number.isSafeInteger(found) && Number(found) >= 0 && [hex].flat().some(format => format.startsWith('number'))
    ? { hint: `write "${toHexQuantity(Number(found))}"` }
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
  return { message: ` must be ${describeStringRule(rule)}, not ${formatValue(text)}${describeHexSize(text)}`, ...hintFor(text, tags) }
}

const tagAdvice = (tag: string, others: readonly string[]): string => {
  const instead = substituteTags[tag]
  if (instead !== undefined && others.includes(instead)) return `use "${instead}" instead`
  return others.length === 0 ? 'use a number' : `use a number or one of ${others.join(', ')}`
}

/** The tag with the closest meaning (contract 4.3.3). */
const substituteTags: Readonly<Record<string, string>> = { safe: 'finalized', finalized: 'safe', pending: 'latest' }

const issueDescriptions: Readonly<Record<string, (rule: Rule, found: unknown) => IssueText>> = {
  type: (rule, found) => ({ ...mustBe(rule, found), ...hexHint(rule, found) }),
  pattern: (rule, found) => ({ message: ` must be ${describeStringRule(rule)}, not ${formatValue(found)}` }),
  enum: (rule, found) => ({ ...mustBe(rule, found), ...hintFor(String(found), rule.enum?.map(String) ?? []) }),
  hex: describeHexIssue,
  minimum: (rule, found) => ({ message: ` must be at least ${rule.minimum}, not ${formatValue(found)}` }),
  maximum: (rule, found) => ({ message: ` must be at most ${rule.maximum}, not ${formatValue(found)}` }),
  minLength: tooFewOf('characters', 'minLength'),
  maxLength: tooManyOf('characters', 'maxLength'),
  minItems: tooFewOf('elements', 'minItems'),
  maxItems: tooManyOf('elements', 'maxItems'),
  // Without the number found: listing the keys of an object takes 13 ms per MB, and the check has just done it.
  maxProperties: rule => ({ message: ` has more than the ${rule.maxProperties} members allowed` }),
}

const unknownMember = (path: Path, rule: Rule, name: string): Issue => {
  const known = Object.keys(rule.properties ?? {})
  const hint = hintFor(name, known)
  const knownMembers = hint.hint === undefined ? `; ${rule.label ?? 'it'} may have ${known.join(', ')}` : ''
  return { path: [...path, name], message: ` is unknown${knownMembers}`, ...hint }
}

/** A hint with the name that was probably meant, if one is close; none for long words, which would take long to compare. */
export const hintFor = (word: string, known: readonly string[]): Pick<Issue, 'hint'> => {
  const hint = word.length > maxComparedChars ? undefined : didYouMean(word, known)
  return hint === undefined ? {} : { hint }
}

const maxComparedChars = 40
