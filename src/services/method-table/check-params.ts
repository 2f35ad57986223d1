import type { Ajv, AnySchemaObject } from 'ajv'
import type { Json } from '../../plugin/call.ts'
import { isJsonObject } from '../../util/json.ts'
import type { JsonObject } from '../../util/json.ts'
import { parseJsonPointer, valueAt } from '../../util/json-path.ts'
import { getOrCreate, memoizeFrozen } from '../../util/memoize.ts'
import { SchemaCompiler, loadAjv, writtenFolder } from '../../util/schema-compiler.ts'
import type { Validator } from '../../util/schema-compiler.ts'
import type { CheckedParams } from './index.ts'
import { describeRule, formatIssue, issueOfAjvError } from './issue-messages.ts'
import { aliasesOf, createHexCheck, createNormalizer } from './normalize-params.ts'
import type { Normalize } from './normalize-params.ts'
import { beforeMembers, objectKeywords } from './rule-keywords.ts'
import type { CheckParams, Issue, ResolvedPosition, Rule } from './table-types.ts'

/** For a method without rules. */
export const acceptAnyParams: CheckParams = params => ({ params })

/** Checks parameters against the rules of their positions, up to the first issue. */
export const createParamsCheck = (method: string, positions: readonly ResolvedPosition[], compile: CompileRule): CheckParams => {
  const checks = positions.map(({ title, optional, rule }, i) => {
    const compiled = compile(rule)
    return {
      isOptional: optional !== false,
      missing: `${method} needs params[${i}], the ${title}: ${describeRule(rule)}`,
      compiled,
      defaultValue: rule.default === undefined ? null : compiled.normalize(rule.default),
    }
  })
  return memoizeFrozen((params: readonly Json[]): CheckedParams => {
    if (params.length > checks.length) return { issue: tooManyParams(method, checks.length, params.length) }
    const normalized: Json[] = []
    for (let i = 0; i < checks.length; i++) {
      const { isOptional, missing, compiled, defaultValue } = checks[i]!
      const value = params[i]
      if (!isOptional || (value ?? null) !== null) {
        if (value === undefined) return { issue: missing }
        const issue = compiled.validate(value)
        if (issue !== undefined) return { issue: formatIssue('params', { ...issue, path: [i, ...issue.path] }) }
      }
      normalized.push((value ?? null) === null ? defaultValue : compiled.normalize(value!))
    }
    while (normalized.length > 0 && normalized.at(-1) === null) normalized.pop()
    return { params: normalized }
  })
}

const tooManyParams = (method: string, most: number, found: number): string =>
  most === 0
    ? `${method} takes no parameters, got ${found}`
    : `${method} takes at most ${most} parameter${most === 1 ? '' : 's'}, got ${found}`

interface CompiledRule {
  /** The first issue of the value. */
  validate(value: Json): Issue | undefined
  /** Only for a valid value. */
  readonly normalize: Normalize
}

export type CompileRule = (rule: Rule) => CompiledRule

/** Compiles resolved rules without issues; equal rules are compiled once. */
export const createRuleCompiler = (): CompileRule => {
  const compiled = new Map<string, CompiledRule>()
  return rule =>
    getOrCreate(compiled, JSON.stringify(rule), () => {
      if (!ruleSchemas.isWritten(ajvSchemaOf(rule))) loadAjv() // the first call would wait for it, and all calls behind it
      return compileOnFirstUse(() => ruleSchemas.compile(ajvSchemaOf(rule)), createNormalizer(rule))
    })
}

const compileOnFirstUse = (compile: () => Validator, normalize: Normalize): CompiledRule => {
  let compiled: Validator | undefined
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

/** What JSON Schema lacks, by keyword: whether a value of the type passes the rule. */
const checksByKeyword: Readonly<Record<string, (rule: Rule) => (value: never) => boolean>> = {
  hex: createHexCheck,
  ...Object.fromEntries(
    Object.entries(objectKeywords).map(([name, { createCheck }]) => [
      name,
      (rule: Rule) => {
        const check = createCheck(rule)
        return (object: JsonObject) => check(object) === undefined
      },
    ]),
  ),
}

/** In the code of a rule. */
const checkOf = (keyword: string, rule: Rule) => checksByKeyword[keyword]?.(rule)

/** An Ajv with the keywords of rules. Its errors carry the value and the rule, for issueOfAjvError(). */
export const createAjv = ({ allErrors = false, isWritten = false } = {}): Ajv => {
  const { Ajv, _, stringify } = loadAjv()
  const ajv = new Ajv({
    allErrors,
    verbose: true,
    messages: false,
    meta: false,
    validateSchema: false,
    allowUnionTypes: true,
    strictTypes: false, // resolve-rules.ts checks the same, with messages for operators
    code: { source: isWritten, optimize: !allErrors }, // not worth its time for a check once per file
  })
  ajv.removeKeyword('required') // in rules `null` counts as missing
  ajv.addVocabulary(['label', 'tags', 'unsupportedTags', 'example'])
  for (const keyword of Object.keys(checksByKeyword)) {
    ajv.addKeyword({
      keyword,
      type: keyword === 'hex' ? 'string' : 'object',
      ...(keyword in beforeMembers && { before: 'properties' }),
      code(context) {
        const rule = context.parentSchema as Rule // as ajvSchemaOf() made it
        const code = _`checkOf(${keyword}, ${stringify(rule)})`
        const check = context.gen.scopeValue('keyword', { ref: checkOf(keyword, rule), code })
        context.pass(_`${check}(${context.data})`)
      },
    })
  }
  return ajv
}

/** Rules as ajvSchemaOf() makes them. */
export const createRuleSchemas = (folder = writtenFolder('rules')): SchemaCompiler =>
  new SchemaCompiler({ folder, scope: { checkOf }, createAjv: isWritten => createAjv({ isWritten }) })

export const ruleSchemas = createRuleSchemas()

/** The rule for Ajv: members are also checked under their aliases, and may be `null`. */
export const ajvSchemaOf = (rule: Rule): AnySchemaObject => ({
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
