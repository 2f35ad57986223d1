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

/** `file:line:column: message`, then the line, then a caret that carries the hint. */
export const formatProblem = ({ file, line, column, message, sourceLine, hint = '' }: Problem): string => {
  const headline = `${file}:${line}:${column}: ${message}`
  if (sourceLine === undefined) return replaceControlChars(hint ? `${headline}\n  ${hint}` : headline)
  const [before, after] = excerptAround(sourceLine, column)
  const margin = ' '.repeat(String(line).length)
  return replaceControlChars(`${headline}\n  ${line} | ${before}${after}\n  ${margin} | ${caretPadding(before)}^ ${hint}`.trimEnd())
}

/** The report of all problems, sorted by position, with a last line that counts them. */
export const formatProblems = (problems: readonly Problem[]): string => {
  const files = new Set(problems.map(problem => problem.file)).size
  const closing = `${countNoun(problems.length, 'problem')} in ${countNoun(files, 'file')}`
  return [...sortProblems(problems).map(formatProblem), closing].join('\n\n')
}

/** Writes the report; nothing when there are no problems. */
export const printProblems = (problems: readonly Problem[], write: (line: string) => void): void => {
  if (problems.length > 0) write(formatProblems(problems))
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
