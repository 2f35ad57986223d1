import type { Ajv, AnySchemaObject, ValidateFunction } from 'ajv'
import type { Json } from '../../plugin/call.ts'
import { isJsonObject } from '../../util/json.ts'
import { parseJsonPointer, valueAt } from '../../util/json-path.ts'
import { loadAjv } from '../../util/load-ajv.ts'
import { getOrCreate, memoizeFrozen } from '../../util/memoize.ts'
import type { CheckedParams } from './index.ts'
import { describeRule, formatIssue, issueOfAjvError } from './issue-messages.ts'
import { aliasesOf, createHexCheck, createNormalizer } from './normalize-params.ts'
import type { Normalize } from './normalize-params.ts'
import { afterMembers, beforeMembers } from './rule-keywords.ts'
import type { ObjectKeyword } from './rule-keywords.ts'
import type { CheckParams, Issue, ResolvedPosition, Rule } from './table-types.ts'

/** For a method without rules. */
export const acceptAnyParams: CheckParams = params => ({ params })

/** Checks parameters against the rules of their positions, up to the first issue. */
export const createParamsCheck = (method: string, positions: readonly ResolvedPosition[], compile: CompileRule): CheckParams => {
  const validators = positions.map((position, i) => createPositionValidator(method, position, i, compile))
  return memoizeFrozen((params: readonly Json[]): CheckedParams => {
    if (params.length > validators.length) return { issue: tooManyParams(method, validators.length, params.length) }
    const normalized: Json[] = []
    for (let i = 0; i < validators.length; i++) {
      const value = params[i]
      const issue = validators[i]?.issueOf(value)
      if (issue !== undefined) return { issue }
      normalized.push(validators[i]?.normalize(value ?? null) ?? null)
    }
    while (normalized.length > 0 && normalized.at(-1) === null) normalized.pop()
    return { params: normalized }
  })
}

interface PositionValidator {
  issueOf(value: Json | undefined): string | undefined
  normalize(value: Json): Json
}

const createPositionValidator = (method: string, position: ResolvedPosition, i: number, compile: CompileRule): PositionValidator => {
  const { title, optional, rule } = position
  const compiled = compile(rule)
  const defaultValue = rule.default === undefined ? null : compiled.normalize(rule.default)
  const missing = `${method} needs params[${i}], the ${title}: ${describeRule(rule)}`
  return {
    issueOf(value) {
      if (optional !== false && (value ?? null) === null) return undefined
      return value === undefined ? missing : issueText(compiled, value, i)
    },
    normalize: value => (value === null ? defaultValue : compiled.normalize(value)),
  }
}

const issueText = (rule: CompiledRule, value: Json, i: number): string | undefined => {
  const issue = rule.validate(value)
  return issue && formatIssue('params', { ...issue, path: [i, ...issue.path] })
}

const tooManyParams = (method: string, most: number, found: number): string =>
  most === 0
    ? `${method} takes no parameters, got ${found}`
    : `${method} takes at most ${most} parameter${most === 1 ? '' : 's'}, got ${found}`

/** A rule, compiled. */
interface CompiledRule {
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
      if (validate(value)) return undefined
      const [error] = validate.errors ?? []
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
