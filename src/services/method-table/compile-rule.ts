import { Ajv } from 'ajv'
import type { AnySchemaObject, ValidateFunction } from 'ajv'
import type { Json } from '../../plugin/call.ts'
import { afterMembers, beforeMembers, createHexCheck } from './object-keywords.ts'
import type { ObjectKeyword } from './object-keywords.ts'
import type { Rule } from './table-types.ts'
import { aliasesOf, isObject } from './object-members.ts'
import { createNormalizer } from './normalize.ts'
import type { Normalize } from './normalize.ts'
import { issueOfAjvError } from './issue-messages.ts'
import type { Issue } from './issue-messages.ts'

/** A rule, ready to use. */
export interface CompiledRule {
  /** The first thing that is wrong with the value. */
  validate(value: Json): Issue | undefined
  /** Only for a value without fault. */
  readonly normalize: Normalize
}

export type CompileRule = (rule: Rule) => CompiledRule

/** Compiles resolved rules that inspect() has nothing against; equal rules share a reader. */
export const createRuleCompiler = (): CompileRule => {
  const ajv = createAjv(false)
  const compiled = new Map<string, CompiledRule>()
  return rule => {
    const key = JSON.stringify(rule)
    const compiledRule = compiled.get(key) ?? lazyCompiledRule(() => ajv.compile(ajvSchemaOf(rule)), createNormalizer(rule))
    compiled.set(key, compiledRule)
    return compiledRule
  }
}

/** An Ajv that knows the named keywords. Errors carry the value and the rule, for explain(). */
export const createAjv = (allErrors: boolean): Ajv => {
  const ajv = new Ajv({
    allErrors,
    verbose: true,
    messages: false,
    meta: false,
    validateSchema: false,
    allowUnionTypes: true,
    strictTypes: false, // inspect() sees to it, in words for operators
    code: { optimize: !allErrors }, // not worth its time for what is asked once per file
  })
  ajv.removeKeyword('required') // the named one of this language takes `null` for missing
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
      const check = createCheck(rule as Rule) // as schemaOf() made it
      return object => check(object) === undefined
    },
  })
}

/** Ajv compiles a rule when it is first asked: 1 to 4 ms each, which a start would spend on 60 of them. */
const lazyCompiledRule = (compile: () => ValidateFunction, normal: Normalize): CompiledRule => {
  let compiled: ValidateFunction | undefined
  return {
    validate(value) {
      const validate = (compiled ??= compile())
      if (validate(value)) return undefined
      const [error] = validate.errors ?? []
      return error && issueOfAjvError(error)
    },
    normalize: normal,
  }
}

/** The rule for Ajv: members go by their aliases too, and may be `null`. */
const ajvSchemaOf = (rule: Rule): AnySchemaObject => ({
  ...rule,
  ...(rule.items && { items: ajvSchemaOf(rule.items) }),
  ...(rule.properties && { properties: memberSchemasOf(rule, rule.properties) }),
  ...(isObject(rule.additionalProperties) && { additionalProperties: orNull(ajvSchemaOf(rule.additionalProperties)) }),
})

const memberSchemasOf = (rule: Rule, properties: Readonly<Record<string, Rule>>): AnySchemaObject =>
  Object.fromEntries(
    Object.entries(properties).flatMap(([name, its]) => {
      const schema = orNull(ajvSchemaOf(its))
      return [name, ...aliasesOf(name, rule)].map(spelling => [spelling, schema])
    }),
  )

const orNull = (schema: AnySchemaObject): AnySchemaObject => ({
  ...schema,
  type: [schema['type'], 'null'].flat(),
  ...(schema['enum'] && { enum: [...schema['enum'], null] }),
})
