import type { Json } from '../../plugin/call.ts'
import type { Rule } from './table-types.ts'

export type JsonObject = { readonly [name: string]: Json }

export const isObject = (value: unknown): value is JsonObject => typeof value === 'object' && value !== null && !Array.isArray(value)

export const isJsonArray = (value: unknown): value is readonly Json[] => Array.isArray(value)

/** Reads a member by its name or one of its aliases; `null` counts as missing. */
export const createMemberReader = (name: string, rule: Rule): ((object: JsonObject) => Json | undefined) => {
  const others = aliasesOf(name, rule)
  if (others.length === 0) return object => object[name] ?? undefined
  return object => object[[name, ...others].find(spelling => hasMember(object, spelling)) ?? name] ?? undefined
}

export const aliasesOf = (name: string, { alias = {} }: Rule): readonly string[] =>
  Object.keys(alias).filter(other => alias[other] === name)

export const hasMember = (object: JsonObject, spelling: string): boolean => (object[spelling] ?? null) !== null

/** The types of a rule, without the `null` that stands for a missing member. */
export const typesOf = ({ type = [] }: Rule): readonly string[] => [type].flat().filter(one => one !== 'null')
