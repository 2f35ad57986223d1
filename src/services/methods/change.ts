import { Misconfigured } from '../../plugin.ts'
import type { Compiled, Table } from './compile.ts'
import { hintAt } from './hint.ts'
import type { Override } from './index.ts'
import type { Entry, Rule } from './language.ts'
import { isObject } from './members.ts'
import { fillsOf, narrow, tagsOf } from './narrow.ts'
import type { ReportComplaint } from './resolve.ts'
import { show, spell } from './sentence.ts'
import type { Complaint } from './sentence.ts'
import { shapeComplaints } from './shape.ts'

/** What a network changes in the table. */
export interface Changes {
  readonly overrides: Readonly<Record<string, Override>>
  readonly tags: Readonly<Record<string, readonly string[]>>
}

/** The table with entries changed, then with fewer tags. Throws Misconfigured; its paths begin with a method's name. */
export const changeTable = (table: Table, { overrides, tags }: Changes, network: string): Table => {
  const complaints: Complaint[] = []
  const report = (complaint: Complaint) => void complaints.push(complaint)
  const entries = new Map(table.entries)
  const set = (name: string, compiled: Compiled | undefined) => void (compiled && entries.set(name, compiled))

  for (const [name, override] of Object.entries(overrides)) {
    if (override !== false) set(name, changeEntry(table, name, override, report))
    else if (!entries.delete(name)) report(unknown(name, table))
  }
  for (const [name, allowed] of Object.entries(tags)) {
    const compiled = entries.get(name)
    if (compiled === undefined) report(unknown(name, table))
    else set(name, table.compiler.narrow(name, compiled, narrowPlaces({ name, compiled, allowed, network }, report)))
  }

  if (complaints.length > 0) throw new Misconfigured(complaints.map(faultOf))
  return { ...table, entries, names: [...entries.keys()] }
}

const unknown = (name: string, { names }: Table): Complaint => ({
  path: [name],
  said: ' is not in the method table',
  ...hintAt(name, names),
})

const faultOf = ({ path, said, hint }: Complaint) => ({
  path,
  message: `${spell('', path)}${said}${hint === undefined ? '' : `; ${hint}`}`,
})

/** The fields given replace the old ones, `null` takes one away; a method that is not in the table is new. */
const changeEntry = (
  { entries, compiler }: Table,
  name: string,
  fields: Exclude<Override, false>,
  report: ReportComplaint,
): Compiled | undefined => {
  const notFields = ` must be false or the fields to change, not ${show(fields)}`
  if (!isObject(fields)) return void report({ path: [name], said: notFields })
  const whole = Object.entries({ ...entries.get(name)?.entry, ...fields }).filter(([, value]) => value !== null)
  const entry: Entry = Object.fromEntries(whole) // shapeComplaints() sees whether it is one
  const complaints = shapeComplaints(entry, 'method')
  complaints.forEach(complaint => report({ ...complaint, path: [name, ...complaint.path] }))
  return complaints.length > 0 ? undefined : compiler.compile(name, entry, [name], report)
}

interface Narrowing {
  readonly name: string
  readonly compiled: Compiled
  readonly allowed: readonly string[]
  readonly network: string
}

const narrowPlaces = ({ name, compiled, allowed, network }: Narrowing, report: ReportComplaint): Compiled['places'] => {
  tagComplaints(name, compiled.places?.map(place => place.rule) ?? [], allowed).forEach(report)
  return compiled.places?.map(place => ({ ...place, rule: narrow(place.rule, allowed, `${name} on ${network}`) }))
}

const tagComplaints = (name: string, rules: readonly Rule[], allowed: readonly string[]): readonly Complaint[] => {
  const known = [...new Set(rules.flatMap(tagsOf))]
  if (known.length === 0) return [{ path: [name], said: ' takes no block tag' }]
  const strange = allowed.flatMap((tag, i) =>
    known.includes(tag) ? [] : [{ path: [name, i], said: ` is "${tag}", which is no tag of ${name}`, ...hintAt(tag, known) }],
  )
  const lost = rules.flatMap(fillsOf).find(fill => known.includes(fill) && !allowed.includes(fill))
  return lost === undefined ? strange : [...strange, { path: [name], said: ` must keep "${lost}", which stands in for a missing block` }]
}
