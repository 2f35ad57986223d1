import { plain } from '../util/style.ts'
import type { Style } from '../util/style.ts'

/** A problem in the operator's files: where, what was found, what is accepted, and often the fix. */
export interface Problem {
  /** As operators see it: relative to the current directory when it lies inside. */
  readonly file: string
  /** Line and column count from 1; columns count characters. */
  readonly line: number
  readonly column: number
  readonly message: string
  /** The text of that line. */
  readonly sourceLine?: string
  readonly hint?: string
}

/** A problem that need not be about a line of a file. */
export type PartialProblem = Pick<Problem, 'message'> & Partial<Problem>

/** How a problem is printed: as one that is refused in plain text, unless given. */
interface ProblemStyle {
  readonly style?: Style
  readonly meaning?: 'error' | 'warning'
}

/** `file:line:column: message`, then the line, then a caret that carries the hint. */
export const formatProblem = (
  { file, line, column, message, sourceLine, hint = '' }: Problem,
  { style = plain, meaning = 'error' }: ProblemStyle = {},
): string => {
  const headline = `${style('place', replaceControlChars(`${file}:${line}:${column}`))}: ${style(meaning, replaceControlChars(message))}`
  const shownHint = replaceControlChars(hint).trimEnd()
  if (sourceLine === undefined) return shownHint === '' ? headline : `${headline}\n  ${shownHint}`
  const [before = '', after = ''] = excerptAround(sourceLine, column)
  const margin = ' '.repeat(String(line).length)
  const source = `${style('minor', `  ${line} |`)} ${replaceControlChars(before + after)}`
  const caret = `${style('minor', `  ${margin} |`)} ${caretPadding(before)}${style(meaning, '^')}`
  return `${headline}\n${source}\n${caret} ${shownHint}`.trimEnd()
}

/** The report of all problems, sorted by position, with a last line that counts them. */
export const formatProblems = (problems: readonly Problem[], style = plain): string => {
  const files = new Set(problems.map(problem => problem.file)).size
  const closing = style('error', `${countNoun(problems.length, 'problem')} in ${countNoun(files, 'file')}`)
  return [...sortProblems(problems).map(problem => formatProblem(problem, { style })), closing].join('\n\n')
}

/** Where problems are written. */
interface ProblemOutput {
  err(line: string): void
  readonly styleErr?: Style | undefined
}

/** Writes the report; nothing when there are no problems. */
export const printProblems = (problems: readonly Problem[], { err, styleErr }: ProblemOutput): void => {
  if (problems.length > 0) err(formatProblems(problems, styleErr))
}

export const sortProblems = (problems: readonly Problem[]): readonly Problem[] =>
  problems.toSorted((a, b) => compare(a.file, b.file) || a.line - b.line || a.column - b.column)

export const isSamePlace = (one: Problem, other: Problem): boolean =>
  one.file === other.file && one.line === other.line && one.column === other.column

export const countNoun = (n: number, noun: string): string => `${n} ${noun}${n === 1 ? '' : 's'}`

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

/** The line before and after the column; of a very long line only the part near it. */
const excerptAround = (line: string, column: number): readonly [before: string, after: string] => {
  const chars = [...line]
  const before = chars.slice(0, column - 1)
  const after = chars.slice(column - 1)
  const fits = chars.length <= 2 * maxExcerptSideChars
  return [
    fits || before.length <= maxExcerptSideChars ? before.join('') : `…${before.slice(-maxExcerptSideChars).join('')}`,
    fits || after.length <= maxExcerptSideChars ? after.join('') : `${after.slice(0, maxExcerptSideChars).join('')}…`,
  ]
}

/** Characters that are shown on either side of the column. */
const maxExcerptSideChars = 80

// Control characters could move the cursor or hide text; tab and newline cannot.
const replaceControlChars = (text: string): string => text.replace(/[^\P{Cc}\t\n]/gu, '\ufffd')

const wideCharPattern = /\p{Emoji_Presentation}|[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Hangul}]/u

/** Space as wide as the text, so that the caret is under its character. */
const caretPadding = (text: string): string =>
  [...text].map(char => (char === '\t' ? char : /\p{Mn}/u.test(char) ? '' : wideCharPattern.test(char) ? '  ' : ' ')).join('')
