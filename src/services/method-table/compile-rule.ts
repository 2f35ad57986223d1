import type { Ajv, AnySchemaObject, ValidateFunction } from 'ajv'
import type { Json } from '../../plugin/call.ts'
import { getOrCreate } from '../../util/memoize.ts'
import { loadAjv } from '../../util/load-ajv.ts'
import { isJsonArray, isJsonObject, toPlainNumbers } from '../../util/json.ts'
import { parseJsonPointer, valueAt } from '../../util/json-path.ts'
import type { JsonObject } from '../../util/json.ts'
import { parseHexFormat, afterMembers, aliasesOf, beforeMembers, createHexCheck, createMemberReader } from './rule-keywords.ts'
import type { ObjectKeyword } from './rule-keywords.ts'
import type { Issue, Rule } from './table-types.ts'
import { issueOfAjvError } from './issue-messages.ts'

/** A rule, compiled. */
export interface CompiledRule {
  /** The first issue of the value. */
  validate(value: Json): Issue | undefined
  /** Only for a valid value. */
  readonly normalize: Normalize
}

export type CompileRule = (rule: Rule) => CompiledRule

/** Compiles resolved rules without issues; equal rules are compiled once. */
export const createRuleCompiler = (): CompileRule => {
  let ajv: Ajv | undefined
  const compile = (rule: Rule) => (ajv ??= createAjv(false)).compile(ajvSchemaOf(rule))
  const compiled = new Map<string, CompiledRule>()
  return rule => getOrCreate(compiled, JSON.stringify(rule), () => compileOnFirstUse(() => compile(rule), createNormalizer(rule)))
}

/** An Ajv with the keywords of rules. Its errors carry the value and the rule, for issueOfAjvError(). */
export const createAjv = (allErrors: boolean): Ajv => {
  const ajv = new (loadAjv())({
    allErrors,
    verbose: true,
    messages: false,
    meta: false,
    validateSchema: false,
    allowUnionTypes: true,
    strictTypes: false, // resolve-rules.ts checks the same, with messages for operators
    code: { optimize: !allErrors }, // not worth its time for a check once per file
  })
  ajv.removeKeyword('required') // in rules `null` counts as missing
  ajv.addVocabulary(['label', 'tags', 'unsupportedTags'])
  ajv.addKeyword({ keyword: 'hex', type: 'string', errors: false, compile: (_setting, rule) => createHexCheck(rule as Rule) })
  for (const [name, keyword] of Object.entries(beforeMembers)) addKeyword(ajv, name, keyword, { before: 'properties' })
  for (const [name, keyword] of Object.entries(afterMembers)) addKeyword(ajv, name, keyword, {})
  return ajv
}

const addKeyword = (ajv: Ajv, keyword: string, { createCheck }: ObjectKeyword, position: { readonly before?: string }): void => {
  ajv.addKeyword({
    keyword,
    type: 'object',
    errors: false,
    ...position,
    compile(_setting, rule) {
      const check = createCheck(rule as Rule) // as ajvSchemaOf() made it
      return object => check(object) === undefined
    },
  })
}

/** Ajv takes 1 to 4 ms to compile a rule, which a start would spend on 60 of them. */
const compileOnFirstUse = (compile: () => ValidateFunction, normalize: Normalize): CompiledRule => {
  let compiled: ValidateFunction | undefined
  return {
    validate(value) {
      const validate = (compiled ??= compile())
      if (validate(toPlainNumbers(value))) return undefined
      const [error] = validate.errors ?? []
      // The message shows a number with the digits that the caller wrote.
      return error && issueOfAjvError({ ...error, data: valueAt(value, parseJsonPointer(error.instancePath)) })
    },
    normalize,
  }
}

/** The rule for Ajv: members are also checked under their aliases, and may be `null`. */
const ajvSchemaOf = (rule: Rule): AnySchemaObject => ({
  ...rule,
  ...(rule.items && { items: ajvSchemaOf(rule.items) }),
  ...(rule.properties && { properties: memberSchemasOf(rule, rule.properties) }),
  ...(isJsonObject(rule.additionalProperties) && { additionalProperties: orNull(ajvSchemaOf(rule.additionalProperties)) }),
})

const memberSchemasOf = (rule: Rule, properties: Readonly<Record<string, Rule>>): AnySchemaObject =>
  Object.fromEntries(
    Object.entries(properties).flatMap(([name, member]) => {
      const schema = orNull(ajvSchemaOf(member))
      return [name, ...aliasesOf(name, rule)].map(spelling => [spelling, schema])
    }),
  )

const orNull = (schema: AnySchemaObject): AnySchemaObject => ({
  ...schema,
  type: [schema['type'], 'null'].flat(),
  ...(schema['enum'] && { enum: [...schema['enum'], null] }),
})

/** Gives all values that mean the same one spelling; only for values that have passed their rule. */
type Normalize = (value: Json) => Json

/**
 * Hex in lower case, numbers without leading zeros, aliases under their name, `null` members removed, defaults added,
 * members in the order of the rule. The value itself is not changed; parts without a rule are passed on as they are.
 */
const createNormalizer = (rule: Rule): Normalize => {
  const text = rule.hex === undefined ? undefined : hexNormalizer(rule)
  const list = rule.items === undefined ? undefined : listNormalizer(rule.items)
  const object = rule.properties === undefined && !isJsonObject(rule.additionalProperties) ? undefined : objectNormalizer(rule)
  if (text === undefined && list === undefined && object === undefined) return unchanged
  return value =>
    typeof value === 'string'
      ? (text?.(value) ?? value)
      : isJsonArray(value)
        ? (list?.(value) ?? value)
        : isJsonObject(value)
          ? (object?.(value) ?? value)
          : value
}

const unchanged: Normalize = value => value

const hexNormalizer = ({ hex = [], tags = [] }: Rule): ((text: string) => string) => {
  const formats = [hex].flat().map(parseHexFormat)
  const [only] = formats
  // The string has passed the rule, so it has the only format.
  if (only !== undefined && formats.length === 1 && tags.length === 0) return text => only.normalize(text)
  return text => formats.find(format => format.matches(text))?.normalize(text) ?? text
}

const listNormalizer = (items: Rule): ((list: readonly Json[]) => Json) => {
  const normalizeElement = createNormalizer(items)
  return normalizeElement === unchanged ? list => list : list => list.map(normalizeElement)
}

const objectNormalizer = (rule: Rule): ((object: JsonObject) => Json) => {
  const members = Object.entries(rule.properties ?? {}).map(([name, memberRule]) => ({
    name,
    read: normalizedMemberReader(name, memberRule, rule),
  }))
  const known = new Set([...Object.keys(rule.properties ?? {}), ...Object.keys(rule.alias ?? {})])
  const normalizeOther = isJsonObject(rule.additionalProperties) ? createNormalizer(rule.additionalProperties) : unchanged
  return object => {
    const normalized: [name: string, value: Json][] = []
    for (const { name, read } of members) {
      const value = read(object)
      if (value !== undefined) normalized.push([name, value])
    }
    if (rule.additionalProperties !== false) {
      for (const name of Object.keys(object)) if (!known.has(name)) normalized.push([name, normalizeOther(object[name] ?? null)])
    }
    return Object.fromEntries(normalized) // defines members, so that `__proto__` is one like any other
  }
}

/** The normalized member, or its default; undefined when the result has no such member. */
const normalizedMemberReader = (name: string, memberRule: Rule, rule: Rule): ((object: JsonObject) => Json | undefined) => {
  const read = createMemberReader(name, rule)
  const normalize = createNormalizer(memberRule)
  const defaultValue = memberRule.default === undefined ? undefined : normalize(memberRule.default)
  const excludingMembers = Object.entries(rule.excludes ?? {})
    .filter(([, others]) => others.includes(name))
    .map(([other]) => createMemberReader(other, rule))
  return object => {
    const value = read(object)
    if (value !== undefined) return normalize(value)
    return excludingMembers.some(excluder => excluder(object) !== undefined) ? undefined : defaultValue
  }
}
