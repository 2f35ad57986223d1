import MiniSearch from 'minisearch'
import { sectionsOf } from '../docs/markdown.ts'
import type { Page } from '../docs/markdown.ts'

/** A section that may answer a question. */
export interface Hit {
  /** `docs/networks.md#add-a-network`. */
  readonly target: string
  /** Of the page, and of each heading down to the section. */
  readonly titles: readonly string[]
  /** What fits best of its text, without markup. */
  readonly excerpt: string
}

interface SectionDocument {
  /** Its target. */
  readonly id: string
  readonly titles: readonly string[]
  readonly title: string
  readonly around: string
  readonly text: string
}

/** Finds sections, best first, by the words of a question. */
export const createDocsSearch = (pages: readonly Page[]): ((question: string) => readonly Hit[]) => {
  const documents = pages.filter(({ file }) => file !== contract).flatMap(documentsOf)
  const byId = new Map(documents.map(document => [document.id, document]))
  const index = new MiniSearch<SectionDocument>({
    fields: ['title', 'around', 'text'],
    extractField: (document, field) => (field === 'text' ? withoutMarkup(document.text) : document[field as 'id' | 'title' | 'around']),
    tokenize: wordsOf,
    processTerm: stemOf,
    searchOptions: { boost: { title: 2 } },
  })
  index.addAll(documents)
  // Of a word that no page has, those that differ by a letter, or begin with it.
  const isUnknown = (term: string): boolean => index.search(term, { processTerm: word => word }).length === 0
  return question =>
    index.search(question, { fuzzy: term => term.length > 4 && isUnknown(term) && 1, prefix: isUnknown }).flatMap(({ id, terms }) => {
      const document = byId.get(id as string)
      return document === undefined
        ? []
        : { target: document.id, titles: document.titles, excerpt: excerptOf(document.text, new Set(terms)) }
    })
}

/** The other pages say what is in it. */
const contract = 'docs/contract.md'

const documentsOf = (page: Page): readonly SectionDocument[] =>
  sectionsOf(page).map(({ titles, anchor, text }) => ({
    id: `${page.file}#${anchor}`,
    titles,
    title: titles.at(-1) ?? '',
    around: titles.slice(0, -1).join(' '),
    text,
  }))

/** Links keep their words, and lose where they lead. */
const withoutMarkup = (text: string): string =>
  text
    .replace(/\]\([^)\s]*\)/g, ']')
    .replace(/<[a-z/][^>]*>/g, ' ')
    .replace(/[`*|[\]]+/g, ' ')

/** `e-mail` is one word. */
const wordsOf = (text: string): string[] => text.replace(/\be-(?=mail)/gi, 'e').split(/[^\p{L}\p{N}]+/u)

/** Words that say nothing of what a question is about. */
const emptyWords = new Set(
  'a about all am an and another any are as at be by can could did do does for from get getting give got had happen happens has have her him his how i if in into is it its let make makes many me much my need no not of on one or other our out she should so some still than that the their them then there these they this those to up us want was we were what when where which while who why will with would you your'.split(
    ' ',
  ),
)

/** One form for `upgrade`, `upgrades`, `upgraded` and `upgrading`. */
const stemOf = (word: string): string | null => {
  const lower = word.toLowerCase()
  if (lower.length < 2 || emptyWords.has(lower)) return null
  return lower
    .replace(/ie[sd]$/, 'y')
    .replace(/(?<=[^s]{2})s$/, '')
    .replace(/(?<=[aeiouy][^aeiou]+)(?:ing|ed)$/, '')
    .replace(/(?<=..)e$/, '')
    .replace(/(?<=.(.))\1$/, '')
}

const excerptChars = 240

/** From that sentence on which has most of the words, to the end of its paragraph, list item or row. */
const excerptOf = (text: string, terms: ReadonlySet<string>): string => {
  const countOf = (words: string) => [...new Set(wordsOf(words).map(stemOf))].filter(stem => stem !== null && terms.has(stem)).length
  const blocks = text.split(/\n(?=\s*(?:\n|[|*-]|\d+\. ))/).map(block => withoutMarkup(block).trim().replace(/\s+/g, ' '))
  const ends = blocks.flatMap(block =>
    Array.from(block.matchAll(/(?:^|(?<=\. ))[^]+?(?:\. |$)/g), ({ index, 0: sentence }) => ({ sentence, end: block.slice(index) })),
  )
  const best = ends.reduce((most, { sentence, end }) => (countOf(sentence) > most.count ? { end, count: countOf(sentence) } : most), {
    end: '',
    count: 0,
  })
  return best.end.length > excerptChars ? `${best.end.slice(0, excerptChars)} …` : best.end
}
