import type { Json } from '../../plugin/call.ts'
import type { Path } from '../../plugin/plugin.ts'
import { memoizeFrozen } from '../../util/frozen.ts'
import { createRuleCompiler } from './compile-rule.ts'
import type { CompileRule, CompiledRule } from './compile-rule.ts'
import type { ErrorCategoryOf } from './error-patterns.ts'
import type { CheckedParams, Method } from './index.ts'
import { describeRule, formatPath } from './issue-messages.ts'
import type { Issue } from './issue-messages.ts'
import { createRuleResolver, inspectDefaults } from './resolve-rules.ts'
import type { ReportIssue } from './resolve-rules.ts'
import type { MethodEntry, PositionEntry, Rule, TableFile } from './table-types.ts'

/** A file of configs/methods/, checked and compiled; the same for all networks that refer to it. */
export interface CompiledTable {
  /** The methods, in the order of the file. */
  readonly names: readonly string[]
  /** Credits for a method that is not in the table. */
  readonly defaultCost: number
  readonly entries: ReadonlyMap<string, CompiledMethod>
  readonly errorCategory: ErrorCategoryOf
  readonly compiler: MethodCompiler
}

/** An entry of the table, ready for any network. */
export interface CompiledMethod {
  /** As in the file. */
  readonly entry: MethodEntry
  /** With the defaults of the file. */
  readonly settings: Omit<Method, 'name' | 'answer' | 'check'>
  /** Undefined for a method whose parameters have no rules. */
  readonly positions: readonly ResolvedPosition[] | undefined
  readonly check: CheckParams
}

/** A position of `params` with its rule resolved. */
export interface ResolvedPosition {
  readonly title: string
  readonly optional: boolean | 'unless strict'
  readonly rule: Rule
}

type CheckParams = (params: readonly Json[], strict: boolean) => CheckedParams

/** Compiles entries that have passed the schema. */
export interface MethodCompiler {
  /** Undefined after an issue of its rules was reported. */
  compile(name: string, entry: MethodEntry, path: Path, report: ReportIssue): CompiledMethod | undefined
  /** The same method with other rules for its positions. */
  withPositions(name: string, compiled: CompiledMethod, positions: CompiledMethod['positions']): CompiledMethod
}

/** Reports the issues of the types of the file. */
export const createMethodCompiler = (file: Omit<TableFile, 'methods' | 'errors'>, reportTypeIssue: ReportIssue): MethodCompiler => {
  const resolve = createRuleResolver(file.types ?? {}, reportTypeIssue)
  const compileRule = createRuleCompiler()

  const resolvePosition = ({ title, optional, ...own }: PositionEntry, path: Path, report: ReportIssue): ResolvedPosition => {
    const rule = resolve(own, path, report)
    return { title, rule, optional: optional ?? rule.default !== undefined }
  }

  /** Undefined after a report. */
  const resolvePositions = (params: readonly PositionEntry[], path: Path, report: ReportIssue): CompiledMethod['positions'] => {
    const issues: Issue[] = []
    const positions = params.map((position, i) => resolvePosition(position, [...path, i], issue => issues.push(issue)))
    if (issues.length === 0) issues.push(...positions.flatMap(({ rule }, i) => inspectDefaults(rule, [...path, i], compileRule)))
    issues.forEach(report)
    return issues.length > 0 ? undefined : positions
  }

  return {
    compile(name, entry, path, report) {
      const settings = { ...file.defaults, ...settingsOf(entry) }
      if (entry.params === undefined) return { entry, settings, positions: undefined, check: acceptAnyParams }
      const positions = resolvePositions(entry.params, [...path, 'params'], report)
      return positions && { entry, settings, positions, check: createParamsCheck(name, positions, compileRule) }
    },
    withPositions: (name, compiled, positions) =>
      positions === undefined ? compiled : { ...compiled, positions, check: createParamsCheck(name, positions, compileRule) },
  }
}

const settingsOf = ({ params: _params, answer: _answer, maxTime, ...rest }: MethodEntry) => ({
  ...rest,
  ...(maxTime !== undefined && { maxTime: parseDurationMs(maxTime) }),
})

const unitMs: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000 }

const parseDurationMs = (text: string): number => Number.parseInt(text, 10) * (unitMs[text.replace(/^\d+/, '')] ?? 1)

/** For a method without rules. */
const acceptAnyParams: CheckParams = params => ({ params })

/** Checks parameters against the rules of their positions, up to the first issue. */
const createParamsCheck = (method: string, positions: readonly ResolvedPosition[], compile: CompileRule): CheckParams => {
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
