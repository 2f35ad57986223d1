import { visit } from 'yaml'
import type { Document, LineCounter, YAMLError } from 'yaml'

/** A problem of the YAML itself, at an offset of the text. */
export interface YamlProblem {
  readonly offset: number
  readonly message: string
  readonly hint?: string
}

/** What the parser has found, as problems for readers who do not know the grammar: one for each mistake. */
export const problemsOfYamlErrors = (document: Document.Parsed, text: string, lines: LineCounter): readonly YamlProblem[] => {
  const errors = [...document.errors, ...document.warnings]
  const [first] = errors
  const cause = first && (findCause(text, lines.linePos(first.pos[0]).line) ?? findIndentedStart(first, text, lines))
  if (cause !== undefined) return [cause]
  return withoutEchoes(firstPerLine(errors, lines).map(error => toYamlProblem(error, text, lines, document)))
}

interface ParsedProblem extends YamlProblem {
  readonly code: YAMLError['code']
}

/** One mistake often causes several errors: of each line the first is reported. */
const firstPerLine = (errors: readonly YAMLError[], lines: LineCounter): readonly YAMLError[] => {
  const reportedLines = new Set<number>()
  return errors.filter(({ pos: [offset] }) => {
    const { line } = lines.linePos(offset)
    return !reportedLines.has(line) && reportedLines.add(line)
  })
}

/**
 * Where a tab indents, a quote or bracket is not closed, nothing can follow, or the cause is known, the errors after it only follow
 * from it: the parser has lost the structure.
 */
const withoutEchoes = (problems: readonly ParsedProblem[]): readonly YamlProblem[] => {
  const isCause = ({ code, hint }: ParsedProblem) =>
    ['TAB_AS_INDENT', 'MISSING_CHAR', 'UNEXPECTED_TOKEN'].includes(code) || (hint !== undefined && code !== 'TAG_RESOLVE_FAILED')
  const first = problems.findIndex(isCause)
  const kept = first < 0 ? problems : problems.filter(({ code }, index) => index <= first || code === 'TAB_AS_INDENT')
  return kept.map(({ code, ...problem }) => problem)
}

/** A mistake that the parser notices only in a later line: at the first error, or above it. */
const findCause = (text: string, errorLine: number): YamlProblem | undefined => {
  let lineStart = 0
  for (const line of text.split('\n').slice(0, errorLine)) {
    const column = line.search(/[^ ]/)
    const message = describeStart(line.slice(column))
    if (message !== undefined) return { offset: lineStart + column, ...message }
    lineStart += line.length + 1
  }
  return undefined
}

/** The first line is indented and a later one is not: the parser reports the later one, and all below it. */
const findIndentedStart = ({ code, pos: [offset] }: YAMLError, text: string, lines: LineCounter): YamlProblem | undefined => {
  const [before, indent] = /^(?:[ \t\r]*(?:#.*)?\n)*( +)(?=[^\s#])/.exec(text) ?? []
  const { line, col } = lines.linePos(offset)
  if (code !== 'UNEXPECTED_TOKEN' || before === undefined || indent === undefined || col > indent.length) return undefined
  return {
    offset: before.length,
    message: `this line is indented, but line ${line} is not indented as much`,
    hint: 'remove the spaces before it, or write the key to which it belongs above it',
  }
}

/** What is wrong with the first characters of a line. */
const describeStart = (line: string): Omit<YamlProblem, 'offset'> | undefined => {
  if (/^-[a-z][\w-]*:(\s|$)/i.test(line)) return { message: 'a space is missing after the dash' }
  const found = formatCodePoint(line)
  if (/^[\u2010-\u2015\u2022\u2212] /.test(line))
    return { message: `a list item must begin with -, not ${found}`, hint: lookAlikeHint('-') }
  if (/^[\w-]+\uff1a/.test(line)) return { message: 'a key must be followed by a colon, not U+FF1A', hint: lookAlikeHint(':') }
  if (!/^[\u00a0\u2000-\u200b\u202f\u205f\u3000]/.test(line)) return undefined
  return { message: `indentation must be spaces, not ${found}`, hint: lookAlikeHint('a space') }
}

const lookAlikeHint = (meant: string): string => `it looks like ${meant}, and may come from a web page: type ${meant} in its place`

/** The first character of a text, as Unicode names it: U+2013. */
export const formatCodePoint = (text: string): string => `U+${(text.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`

const toYamlProblem = (error: YAMLError, text: string, lines: LineCounter, document: Document.Parsed): ParsedProblem => {
  const offset = error.pos[0]
  const openQuote = findOpenQuote(error, text, lines, document)
  if (openQuote !== undefined) return openQuote
  const deeperLine = findDeeperLine(error, text, lines)
  if (deeperLine !== undefined) return { code: 'BAD_INDENT', offset: deeperLine, message: yamlErrorMessages.BAD_INDENT ?? '' }
  const lineStart = offset - (lines.linePos(offset).col - 1)
  const lineEnd = text.indexOf('\n', offset)
  const hint = hintFor(error.code, text.slice(lineStart, offset + 1), text.slice(lineStart, lineEnd < 0 ? undefined : lineEnd))
  return { code: error.code, offset, message: describeYamlError(error, text), ...(hint !== undefined && { hint }) }
}

/** A string that goes on over further lines, until the next quote or the end of the file: the parser reports that end. */
const findOpenQuote = (error: YAMLError, text: string, lines: LineCounter, document: Document.Parsed): ParsedProblem | undefined => {
  const [, quote] = missingQuote.exec(error.message) ?? []
  if (quote === undefined) return undefined
  let start: number | undefined
  visit(document, {
    Scalar(_key, { range }) {
      if (range?.[1] === error.pos[0]) start = range[0]
    },
  })
  if (start === undefined || lines.linePos(start).line === lines.linePos(error.pos[0]).line) return undefined
  const mark = text.charAt(start)
  return { code: error.code, offset: start, message: `this ${mark} has no closing ${mark}` }
}

/** A key below a text, indented more than the text's own key. The parser takes both for one value, and reports where that begins. */
const findDeeperLine = ({ code, pos: [offset] }: YAMLError, text: string, lines: LineCounter): number | undefined => {
  if (code !== 'BLOCK_AS_IMPLICIT_KEY') return undefined
  const indent = /^ */.exec(text.slice(offset - (lines.linePos(offset).col - 1)))?.[0] ?? ''
  const [before] = new RegExp(`^[^\\n:#]+(?::\\S[^\\n:#]*)*\\n+${indent} +(?=[\\w-]+:\\s)`).exec(text.slice(offset)) ?? []
  return before === undefined ? undefined : offset + before.length
}

/** What was probably forgotten. `textBefore` is the line up to the error. */
const hintFor = (code: YAMLError['code'], textBefore: string, line: string): string | undefined => {
  if (/(^|[^"'\w])\$\{/.test(textBefore)) return 'quote a string that contains a variable: "${VAR}"'
  if (code === 'TAG_RESOLVE_FAILED') return /!env\b/i.test(line) ? 'write "${VAR}" for an environment variable' : undefined
  if (code === 'MULTILINE_IMPLICIT_KEY' && /^ *[\w-]+:\S/.test(line)) return 'a space is missing after the colon'
  return undefined
}

/** Rare errors keep the parser's message. */
const describeYamlError = ({ code, message, pos: [offset] }: YAMLError, text: string): string => {
  const [, bracket] = /^Flow .* end with a (.)$/.exec(message) ?? []
  if (bracket !== undefined) return `a closing ${bracket} is missing, or a line before it is not indented`
  const [, quote] = missingQuote.exec(message) ?? []
  if (quote !== undefined) return `a closing ${quote} is missing`
  const closing = code === 'UNEXPECTED_TOKEN' ? closingBrackets[text.charAt(offset)] : undefined
  if (closing !== undefined) return `this ${text.charAt(offset)} has no opening ${closing}`
  return yamlErrorMessages[code] ?? `${message.charAt(0).toLowerCase()}${message.slice(1)}`
}

const missingQuote = /^Missing closing (.)quote$/

const closingBrackets: Readonly<Record<string, string>> = { '}': '{', ']': '[' }

export const tooDeep = 'maps and lists are nested too deeply'

const yamlErrorMessages: Partial<Record<YAMLError['code'], string>> = {
  BAD_INDENT: 'the indentation of this line differs from that of the other entries of its map or list',
  BLOCK_IN_FLOW: 'a comma is missing between two entries in brackets or braces',
  MULTILINE_IMPLICIT_KEY: 'a key must be followed by a colon on the same line',
  DUPLICATE_KEY: 'duplicate key',
  TAB_AS_INDENT: 'indentation must be spaces, not tabs',
  UNEXPECTED_TOKEN: 'unexpected here: indentation, quotes or a comma may be missing before it',
  BLOCK_AS_IMPLICIT_KEY: 'a map or list cannot begin here: indent it, or quote a string that contains a colon',
  RESOURCE_EXHAUSTION: tooDeep,
  MULTIPLE_DOCS: 'a second document begins here; the file must contain one',
  NON_STRING_KEY: 'a key must be a string',
  TAG_RESOLVE_FAILED: 'tags such as !this are not supported',
}
