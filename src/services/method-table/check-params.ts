import type { Json } from '../../util/json.ts'
import { memoizeFrozen } from '../../util/memoize.ts'
import type { CompileRule, CompiledRule } from './compile-rule.ts'
import type { CheckedParams } from './index.ts'
import { describeRule, formatPath } from './issue-messages.ts'
import type { CheckParams, ResolvedPosition } from './table-types.ts'

/** For a method without rules. */
export const acceptAnyParams: CheckParams = params => ({ params })

/** Checks parameters against the rules of their positions, up to the first issue. */
export const createParamsCheck = (method: string, positions: readonly ResolvedPosition[], compile: CompileRule): CheckParams => {
  const validators = positions.map((position, i) => createPositionValidator(method, position, i, compile))
  const createCheck = (strict: boolean) =>
    memoizeFrozen((params: readonly Json[]): CheckedParams => {
      if (params.length > validators.length) return { issue: tooManyParams(method, validators.length, params.length) }
      const normalized: Json[] = []
      for (let i = 0; i < validators.length; i++) {
        const value = params[i]
        const issue = validators[i]?.issueOf(value, strict)
        if (issue !== undefined) return { issue }
        normalized.push(validators[i]?.normalize(value ?? null) ?? null)
      }
      while (normalized.length > 0 && normalized.at(-1) === null) normalized.pop()
      return { params: normalized }
    })
  const [checkLenient, checkStrict] = [createCheck(false), createCheck(true)]
  return (params, strict) => (strict ? checkStrict(params) : checkLenient(params))
}

interface PositionValidator {
  issueOf(value: Json | undefined, strict: boolean): string | undefined
  normalize(value: Json): Json
}

const createPositionValidator = (method: string, position: ResolvedPosition, i: number, compile: CompileRule): PositionValidator => {
  const { title, optional, rule } = position
  const compiled = compile(rule)
  const defaultValue = rule.default === undefined ? null : compiled.normalize(rule.default)
  const missing = `${method} needs params[${i}], the ${title}: ${describeRule(rule)}`
  return {
    issueOf(value, strict) {
      if (optional !== false && (value ?? null) === null && !(strict && optional === 'unless strict')) return undefined
      return value === undefined ? missing : issueText(compiled, value, i)
    },
    normalize: value => (value === null ? defaultValue : compiled.normalize(value)),
  }
}

const issueText = (rule: CompiledRule, value: Json, i: number): string | undefined => {
  const issue = rule.validate(value)
  if (issue === undefined) return undefined
  const text = `${formatPath('params', [i, ...issue.path])}${issue.message}`
  return issue.hint === undefined ? text : `${text}; ${issue.hint}`
}

const tooManyParams = (method: string, most: number, found: number): string =>
  most === 0
    ? `${method} takes no parameters, got ${found}`
    : `${method} takes at most ${most} parameter${most === 1 ? '' : 's'}, got ${found}`
