import type { Rule } from './table-types.ts'

/** The block tags that a rule takes, inside too. */
export const tagsOf = (rule: Rule): readonly string[] => [...(rule.tags ?? []), ...innerRules(rule).flatMap(tagsOf)]

/** The texts that stand in for what is missing, inside too. */
export const defaultTextsOf = (rule: Rule): readonly string[] => [
  ...(typeof rule.default === 'string' ? [rule.default] : []),
  ...innerRules(rule).flatMap(defaultTextsOf),
]

/** The same rule with only the `allowed` tags; what it says about the others names `where`. */
export const restrictTags = (rule: Rule, allowed: readonly string[], where: string): Rule => ({
  ...rule,
  ...(rule.tags && {
    tags: rule.tags.filter(tag => allowed.includes(tag)),
    unsupportedTags: { tags: rule.tags.filter(tag => !allowed.includes(tag)), where },
  }),
  ...(rule.items && { items: restrictTags(rule.items, allowed, where) }),
  ...(rule.properties && { properties: restrictTagsOfEach(rule.properties, allowed, where) }),
})

const restrictTagsOfEach = (rules: Readonly<Record<string, Rule>>, allowed: readonly string[], where: string) =>
  Object.fromEntries(Object.entries(rules).map(([name, rule]) => [name, restrictTags(rule, allowed, where)]))

const innerRules = ({ items, properties = {} }: Rule): readonly Rule[] => [
  ...(items === undefined ? [] : [items]),
  ...Object.values(properties),
]
