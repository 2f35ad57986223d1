/** A function that tells whether a name matches one of the patterns, in which `*` stands for any text: `createNameMatcher(['eth_*'])`. */
export const createNameMatcher = (patterns: readonly string[]): ((name: string) => boolean) => {
  const names = new Set(patterns.filter(pattern => !pattern.includes('*')))
  const expressions = patterns.filter(pattern => pattern.includes('*')).map(toExpression)
  return name => names.has(name) || expressions.some(expression => expression.test(name))
}

/** Repeated `*` are one, so that no pattern takes long to match. */
const toExpression = (pattern: string): RegExp => new RegExp(`^${pattern.split(/\*+/).map(escapeRegExp).join('.*')}$`, 's')

/** A regular expression that matches just this text. */
export const escapeRegExp = (text: string): string => text.replace(/[\\^$.|?+()[\]{}]/g, '\\$&')
