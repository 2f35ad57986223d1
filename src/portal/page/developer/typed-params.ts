import type { PortalMember, PortalParam } from '../../portal-services.ts'
import { compactJson, isJson, itemsOf } from './json-text.ts'
import type { Typed } from './try-state.ts'

/** The field of a whole parameter, or of one of its members. */
export const fieldName = (index: number, member?: string): string => (member === undefined ? `param-${index}` : `param-${index}.${member}`)

/** Whether this parameter is typed as JSON, and not member by member. */
export const isTypedAsJson = (typed: Typed, index: number, { members = [] }: PortalParam): boolean =>
  members.length === 0 || fieldName(index) in typed

/** What is typed, as JSON texts. Empty parameters at the end are left out. */
export const readParams = (params: readonly PortalParam[], typed: Typed): readonly string[] => {
  const texts = params.map((param, i) => readParam(param, typed, i))
  const last = texts.findLastIndex(text => text !== '')
  return texts.slice(0, last + 1).map(text => (text === '' ? 'null' : text))
}

const readParam = (param: PortalParam, typed: Typed, index: number): string => {
  if (isTypedAsJson(typed, index, param)) return toJson(typed[fieldName(index)], param)
  const json = membersAsJson(param, typed, index)
  return json === '{}' && param.optional ? '' : json
}

/** The members that are typed, as an object. */
export const membersAsJson = ({ members = [] }: PortalParam, typed: Typed, index: number): string => {
  const given = members.map(member => [member.title, toJson(typed[fieldName(index, member.title)], member)] as const)
  return `{${given
    .filter(([, text]) => text !== '')
    .map(([title, text]) => `${JSON.stringify(title)}:${text}`)
    .join(',')}}`
}

/** The members of an object that is typed as JSON; undefined where fields could not show them without a change. */
export const membersOf = (json: string, { members = [] }: PortalParam, index: number): Typed | undefined => {
  if (json.trim() === '') return {}
  if (!isJson(json)) return undefined
  const value: unknown = JSON.parse(json)
  // Numbers beyond 2^53 would have other digits.
  if (typeof value !== 'object' || value === null || Array.isArray(value) || JSON.stringify(value) !== compactJson(json)) return undefined
  const entries = Object.entries(value)
  if (!entries.every(([title]) => members.some(member => member.title === title))) return undefined
  return Object.fromEntries(entries.map(([title, member]) => [fieldName(index, title), asText(member)]))
}

/** Parameters, as a JSON array, in the fields that have them: of an object where fields can show it, else as JSON. */
export const typedOf = (params: readonly PortalParam[], json: string): Typed => {
  const items = itemsOf(json)
  const typed = params.map((param, i): Typed => {
    const item = items[i]
    if (item === undefined) return {}
    return (param.members && membersOf(item, param, i)) ?? { [fieldName(i)]: toTyped(item, param) }
  })
  return Object.assign({}, ...typed) as Typed // of objects that are
}

/** A text without its quotes, where it is still taken for the same one. */
const toTyped = (item: string, param: PortalMember): string => {
  const text: unknown = item.startsWith('"') ? JSON.parse(item) : undefined
  return typeof text === 'string' && text.trim() !== '' && toJson(text, param) === item ? text : item
}

/** JSON stays as it is, with all digits; anything else is a text, and so is a bare number unless one is accepted. */
const toJson = (text = '', { example }: PortalMember): string => {
  const trimmed = text.trim()
  if (trimmed === '') return ''
  if (typeof example === 'number' && /^-?\d+(\.\d+)?$/.test(trimmed)) return trimmed
  return /^[[{"]|^(?:true|false|null)$/.test(trimmed) && isJson(trimmed) ? compactJson(trimmed) : JSON.stringify(trimmed)
}

/** As people type a value. */
export const asText = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))

/** What is typed before anybody types. */
export const defaultsOf = (params: readonly PortalParam[]): Typed =>
  Object.fromEntries(params.flatMap(({ default: value }, i) => (value === undefined ? [] : [[fieldName(i), asText(value)]])))

/** Members that most calls have, and that go together. */
const commonMembers = ['to', 'data', 'value', 'from', 'address', 'fromBlock', 'toBlock', 'topics', 'blockHash']
const exampleMembers = ['to', 'data', 'address', 'fromBlock', 'toBlock']

export const isCommon = ({ title }: PortalMember, { members = [] }: PortalParam): boolean =>
  members.length <= commonMembers.length || commonMembers.includes(title)

/** Fills what is empty with examples, and leaves out what a call may leave out. */
export const withExamples = (params: readonly PortalParam[], typed: Typed): Typed => {
  const examples = params.flatMap((param, i) => {
    if (param.optional) return []
    if (isTypedAsJson(typed, i, param)) return [[fieldName(i), asText(param.example)] as const]
    const shown = param.members?.filter(({ title }) => exampleMembers.includes(title)) ?? []
    return shown.map(({ title, example }) => [fieldName(i, title), asText(example)] as const)
  })
  const filled = Object.entries(typed).filter(([, text]) => text.trim() !== '')
  return { ...Object.fromEntries(examples), ...Object.fromEntries(filled) }
}
