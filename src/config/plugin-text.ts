import { readFileSync } from 'node:fs'
import type { ContextKey } from '../plugin/call.ts'
import { handlerReads } from '../plugin/define-plugin.ts'
import type { AnyPlugin } from '../plugin/plugin.ts'
import { refusals } from '../plugin/error-table.ts'
import type { PluginFile } from '../plugin/plugin-fault.ts'
import { explainUnknownRefusal } from '../plugin/reply.ts'
import type { SourcePlace } from './plugin-syntax-errors.ts'

/** A mistake that the text of a plugin shows. */
interface TextMistake {
  /** To be read after the plugin's name. */
  readonly reason: string
  /** The fix. */
  readonly hint: string
  readonly place: SourcePlace
}

/** The first in the plugin's file. What the text does not show, development and tests find as the plugin runs. */
export const findTextMistake = (plugin: AnyPlugin, file: PluginFile): TextMistake | undefined => {
  const source = readFileSync(file.path, 'utf8')
  const withStrings = source.replace(commentsAndStrings, found => (found.startsWith('/') ? toSpaces(found) : found))
  const found = findUndeclaredContext(plugin, source.replace(commentsAndStrings, toSpaces)) ?? findUnknownRefusal(withStrings)
  return found && { reason: found.reason, hint: found.hint, place: placeOf(source, found.offset, file.shownAs) }
}

interface MistakeInCode extends Pick<TextMistake, 'reason' | 'hint'> {
  readonly offset: number
}

/** A member that the plugin does not declare: `call.context.account`, `const { account } = call.context`, and `withContext(call, { region })`. */
const findUndeclaredContext = (plugin: AnyPlugin, code: string): MistakeInCode | undefined => {
  const { reads = [], writes = [] } = plugin
  const declared: Readonly<Record<'reads' | 'writes', readonly ContextKey[]>> = { reads: [...handlerReads(plugin), ...writes], writes }
  const found = [
    ...usesOf(code, 'reads', /\bcall\.context\??\.(\w+)/g),
    ...usesOf(code, 'reads', /\{([^{}]*)\}\s*=\s*call\.context\b(?!\s*[.?[])/g),
    ...usesOf(code, 'writes', /\bwithContext\(\s*call\s*,\s*\{([^{}]*)\}/g),
  ].find(({ list, key }) => !(declared[list] as readonly string[]).includes(key))
  if (found === undefined) return undefined
  const { list, key, offset } = found
  if ((reads as readonly string[]).includes(key) && list === 'reads')
    return {
      reason: `reads \`${key}\` of the context beside vary()`,
      hint: `let vary() return what is needed of ${key}, and read call.variant`,
      offset,
    }
  return { reason: `${list} \`${key}\` of the context, and does not declare it`, hint: `add ${key} to \`${list}\``, offset }
}

/** `refuse('forbiden')`: a kind that is none, which TypeScript would find. */
const findUnknownRefusal = (code: string): MistakeInCode | undefined => {
  if (!/import\s*\{[^}]*\brefuse\s*[,}][^;]*?\bfrom\s*['"]tollgate\/plugin['"]/.test(code)) return undefined
  const calls = Array.from(code.matchAll(/(?<![.\w])refuse\(\s*(['"])([^'"\n]*)\1/g))
  const found = calls.find(([, , kind = '']) => !Object.hasOwn(refusals, kind))
  if (found === undefined) return undefined
  const { fault, fix } = explainUnknownRefusal(found[2] ?? '')
  return { reason: `has ${fault}`, hint: fix, offset: found.index }
}

/** Comments, and strings of one line. */
const commentsAndStrings = /\/\/.*|\/\*[^]*?\*\/|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"/g

/** Offsets and lines stay. */
const toSpaces = (text: string): string => text.replace(/[^\n]/g, ' ')

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
