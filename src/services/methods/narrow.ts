import type { Rule } from './language.ts'

/** The block tags that a rule takes, inside too. */
export const tagsOf = (rule: Rule): readonly string[] => [...(rule.tags ?? []), ...innerRules(rule).flatMap(tagsOf)]

/** The texts that stand in for what is missing, inside too. */
export const fillsOf = (rule: Rule): readonly string[] => [
  ...(typeof rule.fill === 'string' ? [rule.fill] : []),
  ...innerRules(rule).flatMap(fillsOf),
]

/** The same rule with only the `allowed` tags; what it says about the others names `where`. */
export const narrow = (rule: Rule, allowed: readonly string[], where: string): Rule => ({
  ...rule,
  ...(rule.tags && {
    tags: rule.tags.filter(tag => allowed.includes(tag)),
    withheld: { tags: rule.tags.filter(tag => !allowed.includes(tag)), where },
  }),
  ...(rule.items && { items: narrow(rule.items, allowed, where) }),
  ...(rule.properties && { properties: narrowEach(rule.properties, allowed, where) }),
})

const narrowEach = (rules: Readonly<Record<string, Rule>>, allowed: readonly string[], where: string) =>
  Object.fromEntries(Object.entries(rules).map(([name, rule]) => [name, narrow(rule, allowed, where)]))

const innerRules = ({ items, properties = {} }: Rule): readonly Rule[] => [
  ...(items === undefined ? [] : [items]),
  ...Object.values(properties),
]
