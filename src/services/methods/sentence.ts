import type { ErrorObject } from 'ajv'
import type { Path } from '../../plugin.ts'
import { parseForm, sizeOf } from './hex.ts'
import { hintAt } from './hint.ts'
import { objectKeywords } from './keywords.ts'
import type { Rule } from './language.ts'
import { isList, isObject, typesOf } from './members.ts'
import type { JsonObject } from './members.ts'

/** What is wrong with a value, in words. */
export interface Complaint {
  /** From the value that was checked to the one that is wrong. */
  readonly path: Path
  /** Goes behind the name of the place: ` must be ..., not ...`. */
  readonly said: string
  /** What may have been meant. */
  readonly hint?: string
}

/** Retells an error of Ajv (with its `verbose` option). */
export const explain = (error: ErrorObject): Complaint => {
  const path = pathOf(error.instancePath)
  const rule = (error.parentSchema ?? {}) as Rule // what Ajv was given
  const tell = tellers[error.keyword]
  if (tell !== undefined) return { path, ...tell(rule, error.data) }
  if (error.keyword === 'additionalProperties') return unknownMember(path, rule, error.params['additionalProperty'])
  const judge = objectKeywords[error.keyword]?.judge(rule)
  return { path, said: judge?.(error.data as JsonObject) ?? ' is not valid' } // these keywords are about objects only
}

/** `params[0].topics[1]`; a path into a file has no root. */
export const spell = (root: string, path: Path): string =>
  path.reduce<string>((text, step) => {
    if (typeof step === 'number') return `${text}[${step}]`
    if (!/^\w{1,40}$/.test(step)) return `${text}[${show(step)}]`
    return text === '' ? step : `${text}.${step}`
  }, root)

/** A value as it may stand in a message: short, printable, on one line. */
export const show = (value: unknown): string => {
  if (isList(value)) return 'an array'
  if (isObject(value)) return 'an object'
  if (typeof value !== 'string') return String(value)
  if (value.length <= 40 && plain.test(value)) return `"${value}"`
  const text = JSON.stringify(value.length > 40 ? `${value.slice(0, 37)}...` : value)
  return text.replace(/[^ -~]/g, letter => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

const plain = /^[ !#-[\]-~]*$/

/** What a rule wants: `an address (20 bytes of hex with 0x) or an array`. */
export const want = (rule: Rule): string => {
  const wants = typesOf(rule).map((type, i) => wantOf(type, rule, i === 0 ? rule.called : undefined))
  return [...new Set(wants)].join(' or ')
}

/** A text in hex or a tag, as wanted; kept, since callers repeat their mistakes, and putting it into words takes 2 us. */
const wantedText = (rule: Rule): string => {
  const known = wantedTexts.get(rule)
  if (known !== undefined) return known
  const wanted = wantOf('string', rule, rule.called)
  wantedTexts.set(rule, wanted)
  return wanted
}

const wantedTexts = new WeakMap<Rule, string>()

const wantOf = (type: string, rule: Rule, called: string | undefined): string => {
  if (type !== 'string' || rule.hex === undefined) return called ?? enumOf(rule) ?? typeWords[type] ?? type
  const forms = formsOf(rule)
  return called === undefined ? forms : `${called} (${forms})`
}

const typeWords: Readonly<Record<string, string>> = {
  string: 'a string',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  array: 'an array',
  object: 'an object',
}

const enumOf = ({ enum: values }: Rule): string | undefined => values && `one of ${values.filter(one => one !== null).join(', ')}`

const formsOf = ({ hex = [], tags = [] }: Rule): string => {
  const forms = [hex]
    .flat()
    .map(name => parseForm(name).words)
    .join(' or ')
  return tags.length === 0 ? forms : `${forms}, or one of ${tags.join(', ')}`
}

type Told = Omit<Complaint, 'path'>

const mustBe = (rule: Rule, found: unknown): Told => ({ said: ` must be ${want(rule)}, not ${show(found)}` })

/** A JSON number where hex is wanted: how to write it. */
const hexHint = ({ hex = [] }: Rule, found: unknown): Pick<Complaint, 'hint'> =>
  Number.isSafeInteger(found) && Number(found) >= 0 && [hex].flat().some(form => form.startsWith('number'))
    ? { hint: `write "0x${Number(found).toString(16)}"` }
    : {}

const tooFew =
  (unit: string, limit: keyof Rule) =>
  (rule: Rule, found: unknown): Told => ({ said: ` has ${sizeIn(found)} ${unit}, fewer than the ${String(rule[limit])} needed` })

const tooMany =
  (unit: string, limit: keyof Rule) =>
  (rule: Rule, found: unknown): Told => ({ said: ` has ${sizeIn(found)} ${unit}, more than the ${String(rule[limit])} allowed` })

const sizeIn = (found: unknown): number => (typeof found === 'string' || isList(found) ? found.length : 0)

const tellHex = (rule: Rule, found: unknown): Told => {
  const text = String(found)
  const { tags = [], withheld } = rule
  if (withheld?.tags.includes(text)) {
    return { said: `: the tag "${text}" is not supported for ${withheld.where}; ${adviceFor(text, tags)}` }
  }
  return { said: ` must be ${wantedText(rule)}, not ${show(text)}${sizeOf(text)}`, ...hintAt(text, tags) }
}

const adviceFor = (tag: string, others: readonly string[]): string => {
  const instead = substitutes[tag]
  if (instead !== undefined && others.includes(instead)) return `use "${instead}" instead`
  return others.length === 0 ? 'use a number' : `use a number or one of ${others.join(', ')}`
}

/** The tag that comes nearest in meaning (contract 4.3.3). */
const substitutes: Readonly<Record<string, string>> = { safe: 'finalized', finalized: 'safe', pending: 'latest' }

const tellers: Readonly<Record<string, (rule: Rule, found: unknown) => Told>> = {
  type: (rule, found) => ({ ...mustBe(rule, found), ...hexHint(rule, found) }),
  pattern: (rule, found) => ({ said: ` must be ${wantedText(rule)}, not ${show(found)}` }),
  enum: (rule, found) => ({ ...mustBe(rule, found), ...hintAt(String(found), rule.enum?.map(String) ?? []) }),
  hex: tellHex,
  minimum: (rule, found) => ({ said: ` must be at least ${rule.minimum}, not ${show(found)}` }),
  maximum: (rule, found) => ({ said: ` must be at most ${rule.maximum}, not ${show(found)}` }),
  minLength: tooFew('characters', 'minLength'),
  maxLength: tooMany('characters', 'maxLength'),
  minItems: tooFew('elements', 'minItems'),
  maxItems: tooMany('elements', 'maxItems'),
  // Without the number found: to list the keys of an object takes 13 ms per MB, and the check has just done it.
  maxProperties: rule => ({ said: ` has more than the ${rule.maxProperties} members allowed` }),
}

const unknownMember = (path: Path, rule: Rule, name: string): Complaint => {
  const known = Object.keys(rule.properties ?? {})
  const hint = hintAt(name, known)
  const all = hint.hint === undefined ? `; ${rule.called ?? 'it'} may have ${known.join(', ')}` : ''
  return { path: [...path, name], said: ` is unknown${all}`, ...hint }
}

const pathOf = (pointer: string): Path =>
  pointer
    .split('/')
    .slice(1)
    .map(step => step.replaceAll('~1', '/').replaceAll('~0', '~'))
    .map(step => (/^\d{1,9}$/.test(step) ? Number(step) : step))
