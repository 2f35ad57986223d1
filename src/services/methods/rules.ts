import { Ajv } from 'ajv'
import type { AnySchemaObject, ValidateFunction } from 'ajv'
import type { Json } from '../../call.ts'
import { afterMembers, beforeMembers, judgeHex } from './keywords.ts'
import type { Keyword } from './keywords.ts'
import type { Rule } from './language.ts'
import { aliasesOf, isObject } from './members.ts'
import { normaliser } from './normal.ts'
import type { Normal } from './normal.ts'
import { explain } from './sentence.ts'
import type { Complaint } from './sentence.ts'

/** A rule, ready to use. */
export interface Reader {
  /** The first thing that is wrong with the value. */
  fault(value: Json): Complaint | undefined
  /** Only for a value without fault. */
  readonly normal: Normal
}

export type Compile = (rule: Rule) => Reader

/** Compiles resolved rules that inspect() has nothing against; equal rules share a reader. */
export const ruleCompiler = (): Compile => {
  const ajv = newAjv(false)
  const readers = new Map<string, Reader>()
  return rule => {
    const key = JSON.stringify(rule)
    const reader = readers.get(key) ?? newReader(() => ajv.compile(schemaOf(rule)), normaliser(rule))
    readers.set(key, reader)
    return reader
  }
}

/** An Ajv that knows the named keywords. Errors carry the value and the rule, for explain(). */
export const newAjv = (allErrors: boolean): Ajv => {
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
  ajv.addVocabulary(['called', 'fill', 'tags', 'withheld'])
  ajv.addKeyword({ keyword: 'hex', type: 'string', errors: false, compile: (_setting, rule) => judgeHex(rule as Rule) })
  for (const [name, keyword] of Object.entries(beforeMembers)) addKeyword(ajv, name, keyword, { before: 'properties' })
  for (const [name, keyword] of Object.entries(afterMembers)) addKeyword(ajv, name, keyword, {})
  return ajv
}

const addKeyword = (ajv: Ajv, keyword: string, { judge }: Keyword, place: { readonly before?: string }): void => {
  ajv.addKeyword({
    keyword,
    type: 'object',
    errors: false,
    ...place,
    compile(_setting, rule) {
      const said = judge(rule as Rule) // as schemaOf() made it
      return object => said(object) === undefined
    },
  })
}

/** Ajv compiles a rule when it is first asked: 1 to 4 ms each, which a start would spend on 60 of them. */
const newReader = (compile: () => ValidateFunction, normal: Normal): Reader => {
  let compiled: ValidateFunction | undefined
  return {
    fault(value) {
      const validate = (compiled ??= compile())
      if (validate(value)) return undefined
      const [error] = validate.errors ?? []
      return error && explain(error)
    },
    normal,
  }
}

/** The rule for Ajv: members go by their aliases too, and may be `null`. */
const schemaOf = (rule: Rule): AnySchemaObject => ({
  ...rule,
  ...(rule.items && { items: schemaOf(rule.items) }),
  ...(rule.properties && { properties: membersOf(rule, rule.properties) }),
  ...(isObject(rule.additionalProperties) && { additionalProperties: orNull(schemaOf(rule.additionalProperties)) }),
})

const membersOf = (rule: Rule, properties: Readonly<Record<string, Rule>>): AnySchemaObject =>
  Object.fromEntries(
    Object.entries(properties).flatMap(([name, its]) => {
      const schema = orNull(schemaOf(its))
      return [name, ...aliasesOf(name, rule)].map(spelling => [spelling, schema])
    }),
  )

const orNull = (schema: AnySchemaObject): AnySchemaObject => ({
  ...schema,
  type: [schema['type'], 'null'].flat(),
  ...(schema['enum'] && { enum: [...schema['enum'], null] }),
})
