import { closestMatch, formatSuggestion } from './did-you-mean.ts'

/**
 * Old names of keys and values of YAML files, from before the first release, with their current names. Old names are not
 * accepted; `tollgate check` suggests the current name, of several the one that is valid at that place.
 */
export const renamedKeys: Readonly<Record<string, readonly string[]>> = {
  // Methods and rules of a method table.
  keep: ['cache', 'retention'],
  at: ['blockParam'],
  word: ['result'],
  height: ['result'],
  resend: ['idempotent'],
  split: ['splittable'],
  is: ['ref', 'from'],
  called: ['label'],
  fill: ['default'],
  notAbove: ['ordered'],
  head: ['latest'],
  found: ['mined'],
  // Categories of errors.
  means: ['category'],
  known: ['alreadyKnown'],
  tooWide: ['rangeTooWide'],
  unknown: ['blockNotFound'],
  pruned: ['stateUnavailable'],
  badParams: ['invalidParams'],
  noMethod: ['methodNotFound'],
  misread: ['requestRejected'],
  limited: ['rateLimited'],
  denied: ['unauthorized'],
  // Options of plugins.
  away: ['onStoreOutage', 'noBackend'],
  calls: ['minCalls'],
  errors: ['errorPercent'],
  streak: ['consecutiveFailures'],
  pause: ['openFor'],
  silence: ['probeAfter'],
  maxPieces: ['maxChunks'],
  tooMany: ['cacheTooManyFor'],
}

/** The current name, if it is one of `known`. */
export const renamedKey = (key: string, known: readonly string[]): string | undefined => {
  const names = Object.hasOwn(renamedKeys, key) ? renamedKeys[key] : undefined
  return names?.find(name => known.includes(name))
}

/** The key, or value, among `known` that was meant: the current name, or the name with the fewest edits. */
export const closestKey = (key: string, known: readonly string[]): string | undefined => renamedKey(key, known) ?? closestMatch(key, known)

/** The hint that goes with closestKey(). */
export const didYouMeanKey = (key: string, known: readonly string[]): string | undefined => formatSuggestion(closestKey(key, known))
