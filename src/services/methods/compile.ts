import type { Path } from '../../plugin.ts'
import { checker, unchecked } from './check.ts'
import type { Check, Place } from './check.ts'
import type { ReadError } from './errors.ts'
import type { Method } from './index.ts'
import { inspectFills } from './inspect.ts'
import type { Entry, Position, TableFile } from './language.ts'
import { resolver } from './resolve.ts'
import type { ReportComplaint } from './resolve.ts'
import { ruleCompiler } from './rules.ts'
import type { Complaint } from './sentence.ts'

/** An entry of the table, ready for any network. */
export interface Compiled {
  /** As it stands in the file. */
  readonly entry: Entry
  /** With the defaults of the file. */
  readonly settings: Omit<Method, 'name' | 'answer' | 'check'>
  /** Undefined for a method whose parameters have no rules. */
  readonly places: readonly Place[] | undefined
  readonly check: Check
}

/** A file of configs/methods/, checked and compiled; the same for every network that names it. */
export interface Table {
  /** The methods, in the order of the file. */
  readonly names: readonly string[]
  /** Credits for a method that is not in the table. */
  readonly defaultCost: number
  readonly entries: ReadonlyMap<string, Compiled>
  readonly readError: ReadError
  readonly compiler: EntryCompiler
}

/** Makes entries that fit the shape ready; undefined after something was reported about their rules. */
export interface EntryCompiler {
  compile(name: string, entry: Entry, path: Path, report: ReportComplaint): Compiled | undefined
  /** The entry with fewer tags in its rules. */
  narrow(name: string, compiled: Compiled, places: readonly Place[] | undefined): Compiled
}

/** Reports what is wrong with the named types. */
export const entryCompiler = (file: Omit<TableFile, 'methods' | 'errors'>, reportType: ReportComplaint): EntryCompiler => {
  const resolve = resolver(file.types ?? {}, reportType)
  const compileRule = ruleCompiler()

  const placeOf = ({ title, optional, ...own }: Position, path: Path, report: ReportComplaint): Place => {
    const rule = resolve(own, path, report)
    return { title, rule, optional: optional ?? rule.fill !== undefined }
  }

  /** Undefined after a report. */
  const placesOf = (params: readonly Position[], path: Path, report: ReportComplaint): readonly Place[] | undefined => {
    const complaints: Complaint[] = []
    const places = params.map((position, i) => placeOf(position, [...path, i], complaint => complaints.push(complaint)))
    if (complaints.length === 0) complaints.push(...fillComplaints(places, path))
    complaints.forEach(report)
    return complaints.length > 0 ? undefined : places
  }

  const fillComplaints = (places: readonly Place[], path: Path): readonly Complaint[] =>
    places.flatMap(({ rule }, i) => inspectFills(rule, [...path, i], compileRule))

  return {
    compile(name, entry, path, report) {
      const settings = { ...file.defaults, ...settingsOf(entry) }
      if (entry.params === undefined) return { entry, settings, places: undefined, check: unchecked }
      const places = placesOf(entry.params, [...path, 'params'], report)
      return places && { entry, settings, places, check: checker(name, places, compileRule) }
    },
    narrow: (name, compiled, places) =>
      places === undefined ? compiled : { ...compiled, places, check: checker(name, places, compileRule) },
  }
}

const settingsOf = ({ params: _params, answer: _answer, maxTime, ...rest }: Entry) => ({
  ...rest,
  ...(maxTime !== undefined && { maxTime: parseTime(maxTime) }),
})

const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000 }

const parseTime = (text: string): number => Number.parseInt(text, 10) * (units[text.replace(/^\d+/, '')] ?? 1)
