import { readFileSync } from 'node:fs'
import type { ContextKey } from '../plugin/call.ts'
import type { AnyPlugin } from '../plugin/plugin.ts'
import type { PluginFile } from '../plugin/plugin-fault.ts'
import type { SourcePlace } from './plugin-syntax-errors.ts'

/** Where the code of a plugin reads or writes a member of the context that the plugin does not declare. */
interface UndeclaredContext {
  readonly list: 'reads' | 'writes'
  readonly key: string
  readonly place: SourcePlace
}

/**
 * The first in the plugin's file, as far as its text shows it: `call.context.account`, `const { account } = call.context`, and `withContext(call,
 * { region })`. What the text does not show, development and tests find as the plugin runs.
 */
export const findUndeclaredContext = ({ reads = [], writes = [] }: AnyPlugin, file: PluginFile): UndeclaredContext | undefined => {
  const source = readFileSync(file.path, 'utf8')
  const code = source.replace(textPattern, found => found.replace(/[^\n]/g, ' '))
  const declared: Readonly<Record<'reads' | 'writes', readonly ContextKey[]>> = { reads: [...reads, ...writes], writes }
  const found = [
    ...usesOf(code, 'reads', /\bcall\.context\??\.(\w+)/g),
    ...usesOf(code, 'reads', /\{([^{}]*)\}\s*=\s*call\.context\b(?!\s*[.?[])/g),
    ...usesOf(code, 'writes', /\bwithContext\(\s*call\s*,\s*\{([^{}]*)\}/g),
  ].find(({ list, key }) => !(declared[list] as readonly string[]).includes(key))
  return found && { list: found.list, key: found.key, place: placeOf(source, found.offset, file.shownAs) }
}

/** Comments, and strings of one line. */
const textPattern = /\/\/.*|\/\*[^]*?\*\/|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"/g

interface ContextUse {
  readonly list: 'reads' | 'writes'
  readonly key: string
  readonly offset: number
}

/** The group of the pattern is a name, or the members of an object. */
const usesOf = (code: string, list: ContextUse['list'], pattern: RegExp): readonly ContextUse[] =>
  Array.from(code.matchAll(pattern)).flatMap(match => {
    const [text, members = ''] = match
    const start = match.index + text.indexOf(members)
    return Array.from(withoutParentheses(members).matchAll(/(?:^|,)\s*(\w+)\s*(?=[:,=]|$)/g), each => {
      const key = each[1] ?? ''
      return { list, key, offset: start + each.index + each[0].indexOf(key) }
    })
  })

/** With spaces in place of what stands in parentheses or brackets: arguments are no members. */
const withoutParentheses = (text: string): string => {
  const stripped = text.replace(/\([^()[\]]*\)|\[[^()[\]]*\]/g, found => ' '.repeat(found.length))
  return stripped === text ? text : withoutParentheses(stripped)
}

const placeOf = (source: string, offset: number, file: string): SourcePlace => {
  const before = source.slice(0, offset).split('\n')
  const sourceLine = source.split('\n')[before.length - 1] ?? ''
  return { file, line: before.length, column: [...(before.at(-1) ?? '')].length + 1, sourceLine }
}
