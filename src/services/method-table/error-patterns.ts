import type { ErrorCategory } from '../../plugin/error-table.ts'
import type { RpcError } from '../../plugin/reply.ts'
import type { Path } from '../../util/json.ts'
import { hintFor } from './issue-messages.ts'
import type { ErrorPattern, Issue } from './table-types.ts'

/** The category of a node's error to a call of this method; undefined when no pattern matches. */
type ErrorCategoryOf = (error: RpcError, method: string) => ErrorCategory | undefined

/** Compiles the `errors` of a methods file; the first pattern that matches decides. */
export const createErrorClassifier = (patterns: readonly ErrorPattern[]): ErrorCategoryOf => {
  const matchers = patterns.map(createErrorMatcher)
  return ({ code, message }, method) => {
    const text = message.slice(0, maxMessageChars).toLowerCase()
    return matchers.find(matcher => matcher.matches(code, text, method))?.category
  }
}

/** Issues of patterns that have passed the schema. */
export const errorPatternIssues = (patterns: readonly ErrorPattern[], methods: readonly string[]): readonly Issue[] =>
  patterns.flatMap((pattern, i) => {
    const path = ['errors', i]
    const isEmpty = pattern.code === undefined && pattern.message === undefined
    return [
      ...(isEmpty ? [{ path, message: ' needs "code" or "message"' }] : []),
      ...unknownMethods(pattern, [...path, 'methods'], methods),
    ]
  })

const unknownMethods = ({ methods: named = [] }: ErrorPattern, path: Path, methods: readonly string[]): readonly Issue[] =>
  named.flatMap((name, i) =>
    methods.includes(name)
      ? []
      : [{ path: [...path, i], message: ` is "${name}", which is not in the method table`, ...hintFor(name, methods) }],
  )

/** Longer messages are cut: nodes quote what callers sent, at any length. */
const maxMessageChars = 2000

interface ErrorMatcher {
  readonly category: ErrorCategory
  matches(code: number, text: string, method: string): boolean
}

const createErrorMatcher = ({ category, code, message, methods }: ErrorPattern): ErrorMatcher => {
  const codes = code === undefined ? undefined : new Set([code].flat())
  const patterns = message === undefined ? undefined : [message].flat().map(text => text.toLowerCase().split('*'))
  return {
    category,
    matches: (errorCode, text, method) =>
      codes?.has(errorCode) !== false &&
      methods?.includes(method) !== false &&
      patterns?.some(pieces => containsInOrder(text, pieces)) !== false,
  }
}

/** Does the text contain the pieces, one after another? Each is searched once, so that no text makes it slow. */
const containsInOrder = (text: string, pieces: readonly string[]): boolean => {
  let at = 0
  for (const piece of pieces) {
    const found = text.indexOf(piece, at)
    if (found < 0) return false
    at = found + piece.length
  }
  return true
}
