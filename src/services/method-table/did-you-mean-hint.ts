import { didYouMean } from '../../util/did-you-mean.ts'

/** What somebody may have meant. Empty when nothing comes near, and for long words: they would take long to compare. */
export const hintFor = (word: string, known: readonly string[]): { readonly hint?: string } => {
  const hint = word.length > 40 ? undefined : didYouMean(word, known)
  return hint === undefined ? {} : { hint }
}
