import type { Json } from '../../call.ts'
import { remembering } from '../../frozen.ts'
import type { Checked } from './index.ts'
import type { Rule } from './language.ts'
import type { Compile, Reader } from './rules.ts'
import { spell, want } from './sentence.ts'

/** A position of `params` with its rule resolved. */
export interface Place {
  readonly title: string
  /** May it be missing? */
  readonly optional: boolean | 'unless strict'
  readonly rule: Rule
}

export type Check = (params: readonly Json[], strict: boolean) => Checked

/** For a method without rules. */
export const unchecked: Check = params => ({ params })

/** Holds parameters against the rules of their positions; the first that is wrong ends it. */
export const checker = (method: string, places: readonly Place[], compile: Compile): Check => {
  const readers = places.map((place, i) => readerOf(method, place, i, compile))
  const check = (strict: boolean) =>
    remembering((params: readonly Json[]): Checked => {
      if (params.length > readers.length) return { complaint: tooMany(method, readers.length, params.length) }
      const normal: Json[] = []
      for (let i = 0; i < readers.length; i++) {
        const value = params[i]
        const complaint = readers[i]?.complaint(value, strict)
        if (complaint !== undefined) return { complaint }
        normal.push(readers[i]?.normal(value ?? null) ?? null)
      }
      while (normal.length > 0 && normal.at(-1) === null) normal.pop()
      return { params: normal }
    })
  const [loosely, strictly] = [check(false), check(true)]
  return (params, strict) => (strict ? strictly(params) : loosely(params))
}

interface PlaceReader {
  complaint(value: Json | undefined, strict: boolean): string | undefined
  normal(value: Json): Json
}

const readerOf = (method: string, place: Place, i: number, compile: Compile): PlaceReader => {
  const { title, optional, rule } = place
  const reader = compile(rule)
  const fill = rule.fill === undefined ? null : reader.normal(rule.fill)
  const missing = `${method} needs params[${i}], the ${title}: ${want(rule)}`
  return {
    complaint(value, strict) {
      if (optional !== false && (value ?? null) === null && !(strict && optional === 'unless strict')) return undefined
      return value === undefined ? missing : complaintOf(reader, value, i)
    },
    normal: value => (value === null ? fill : reader.normal(value)),
  }
}

const complaintOf = (reader: Reader, value: Json, i: number): string | undefined => {
  const fault = reader.fault(value)
  if (fault === undefined) return undefined
  const said = `${spell('params', [i, ...fault.path])}${fault.said}`
  return fault.hint === undefined ? said : `${said}; ${fault.hint}`
}

const tooMany = (method: string, most: number, found: number): string =>
  most === 0
    ? `${method} takes no parameters, got ${found}`
    : `${method} takes at most ${most} parameter${most === 1 ? '' : 's'}, got ${found}`
