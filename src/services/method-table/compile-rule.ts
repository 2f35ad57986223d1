import { Ajv } from 'ajv'
import type { AnySchemaObject, ValidateFunction } from 'ajv'
import type { Json } from '../../plugin/call.ts'
import { getOrCreate } from '../../util/get-or-create.ts'
import { isJsonObject } from '../../util/json.ts'
import { afterMembers, aliasesOf, beforeMembers, createHexCheck } from './object-keywords.ts'
import type { ObjectKeyword } from './object-keywords.ts'
import type { Rule } from './table-types.ts'
import { createNormalizer } from './normalize.ts'
import type { Normalize } from './normalize.ts'
import { issueOfAjvError } from './issue-messages.ts'
import type { Issue } from './issue-messages.ts'

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
  const ajv = createAjv(false)
  const compiled = new Map<string, CompiledRule>()
  return rule =>
    getOrCreate(compiled, JSON.stringify(rule), () => compileOnFirstUse(() => ajv.compile(ajvSchemaOf(rule)), createNormalizer(rule)))
}

/** An Ajv with the keywords of rules. Its errors carry the value and the rule, for issueOfAjvError(). */
export const createAjv = (allErrors: boolean): Ajv => {
  const ajv = new Ajv({
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
      return error && issueOfAjvError(error)
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
