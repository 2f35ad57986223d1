import type { Path } from '../../plugin/plugin.ts'
import { createParamsCheck, acceptAnyParams } from './check-params.ts'
import type { CheckParams, ResolvedPosition } from './check-params.ts'
import type { ErrorCategoryOf } from './error-patterns.ts'
import type { Method } from './index.ts'
import { inspectDefaults } from './inspect-rules.ts'
import type { MethodEntry, PositionEntry, TableFile } from './table-types.ts'
import { createRuleResolver } from './resolve-rules.ts'
import type { ReportIssue } from './resolve-rules.ts'
import { createRuleCompiler } from './compile-rule.ts'
import type { Issue } from './issue-messages.ts'

/** An entry of the table, ready for any network. */
export interface CompiledMethod {
  /** As it stands in the file. */
  readonly entry: MethodEntry
  /** With the defaults of the file. */
  readonly settings: Omit<Method, 'name' | 'answer' | 'check'>
  /** Undefined for a method whose parameters have no rules. */
  readonly positions: readonly ResolvedPosition[] | undefined
  readonly check: CheckParams
}

/** A file of configs/methods/, checked and compiled; the same for every network that names it. */
export interface CompiledTable {
  /** The methods, in the order of the file. */
  readonly names: readonly string[]
  /** Credits for a method that is not in the table. */
  readonly defaultCost: number
  readonly entries: ReadonlyMap<string, CompiledMethod>
  readonly errorCategory: ErrorCategoryOf
  readonly compiler: MethodCompiler
}

/** Makes entries that fit the shape ready; undefined after something was reported about their rules. */
export interface MethodCompiler {
  compile(name: string, entry: MethodEntry, path: Path, report: ReportIssue): CompiledMethod | undefined
  /** The entry with fewer tags in its rules. */
  restrictTags(name: string, compiled: CompiledMethod, places: readonly ResolvedPosition[] | undefined): CompiledMethod
}

/** Reports what is wrong with the named types. */
export const createMethodCompiler = (file: Omit<TableFile, 'methods' | 'errors'>, reportType: ReportIssue): MethodCompiler => {
  const resolve = createRuleResolver(file.types ?? {}, reportType)
  const compileRule = createRuleCompiler()

  const positionOf = ({ title, optional, ...own }: PositionEntry, path: Path, report: ReportIssue): ResolvedPosition => {
    const rule = resolve(own, path, report)
    return { title, rule, optional: optional ?? rule.default !== undefined }
  }

  /** Undefined after a report. */
  const positionsOf = (params: readonly PositionEntry[], path: Path, report: ReportIssue): readonly ResolvedPosition[] | undefined => {
    const issues: Issue[] = []
    const positions = params.map((position, i) => positionOf(position, [...path, i], issue => issues.push(issue)))
    if (issues.length === 0) issues.push(...defaultIssues(positions, path))
    issues.forEach(report)
    return issues.length > 0 ? undefined : positions
  }

  const defaultIssues = (places: readonly ResolvedPosition[], path: Path): readonly Issue[] =>
    places.flatMap(({ rule }, i) => inspectDefaults(rule, [...path, i], compileRule))

  return {
    compile(name, entry, path, report) {
      const settings = { ...file.defaults, ...settingsOfEntry(entry) }
      if (entry.params === undefined) return { entry, settings, positions: undefined, check: acceptAnyParams }
      const places = positionsOf(entry.params, [...path, 'params'], report)
      return places && { entry, settings, positions: places, check: createParamsCheck(name, places, compileRule) }
    },
    restrictTags: (name, compiled, places) =>
      places === undefined ? compiled : { ...compiled, positions: places, check: createParamsCheck(name, places, compileRule) },
  }
}

const settingsOfEntry = ({ params: _params, answer: _answer, maxTime, ...rest }: MethodEntry) => ({
  ...rest,
  ...(maxTime !== undefined && { maxTime: parseDurationMs(maxTime) }),
})

const unitMs: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000 }

const parseDurationMs = (text: string): number => Number.parseInt(text, 10) * (unitMs[text.replace(/^\d+/, '')] ?? 1)
