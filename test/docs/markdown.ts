import { readFileSync, readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** One page of the documentation. */
export interface Page {
  /** Relative to the root of the repository. */
  readonly file: string
  readonly text: string
}

/** A fenced block: `yaml`, `sh`, `js`, … */
export interface CodeBlock {
  readonly file: string
  readonly language: string
  readonly code: string
}

export const readPage = (file: string): Page => ({ file, text: readFileSync(file, 'utf8') })

/** Everything that people read, but for the changelog, which also names what is gone. */
export const readPages = (): readonly Page[] => {
  const docs = (readdirSync('docs', { recursive: true }) as string[]).filter(file => file.endsWith('.md')).map(file => join('docs', file))
  return ['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'plugins/README.md', ...docs].map(readPage)
}

const fencePattern = /^([ ]*)```(\w*)\n([^]*?)^\1```$/gm

export const codeBlocksOf = ({ file, text }: Page): readonly CodeBlock[] =>
  Array.from(text.matchAll(fencePattern), ([, , language = '', code = '']) => ({ file, language, code }))

export const withoutBlocks = (text: string): string => text.replace(fencePattern, '')

/** The texts between single backticks. */
export const codeSpansOf = ({ text }: Page): readonly string[] =>
  Array.from(withoutBlocks(text).matchAll(/`([^`\n]+)`/g), ([, code = '']) => code)

/** A link to another file of the repository, or to a heading of one. */
export interface RelativeLink {
  readonly target: string
  /** Relative to the root of the repository. */
  readonly file: string
  readonly anchor: string | undefined
}

export const relativeLinksOf = ({ file, text }: Page): readonly RelativeLink[] =>
  Array.from(withoutBlocks(text).matchAll(/\]\(([^)\s]+)\)/g), ([, target = '']) => target)
    .filter(target => !/^[a-z]+:/.test(target))
    .map(target => {
      const [path = '', anchor] = target.split('#', 2)
      return { target, file: path === '' ? file : join(dirname(file), path), anchor }
    })

/** What a page links to and shows, without links to other hosts. */
export const linkedFilesOf = (page: Page): readonly string[] => [
  ...relativeLinksOf(page).map(({ file }) => file),
  ...Array.from(page.text.matchAll(/ src(?:set)?="([^"]+)"/g), ([, path = '']) => join(dirname(page.file), path)),
]

/** What stands below one heading, up to the next. */
export interface Section {
  /** Those of the headings around it, that of the page first, and its own. */
  readonly titles: readonly string[]
  /** As GitHub makes it. */
  readonly anchor: string
  readonly text: string
}

export const sectionsOf = ({ text }: Page): readonly Section[] => {
  const anchorFor = createAnchors()
  const sections: { readonly depth: number; readonly title: string; readonly titles: readonly string[]; readonly lines: string[] }[] = []
  let fence: string | undefined
  for (const line of text.split('\n')) {
    const mark = /^ *(```)/.exec(line)?.[1]
    if (mark !== undefined) fence = fence === undefined ? mark : undefined
    const [, marks = '', title = ''] = (fence === undefined && /^(#{1,6}) +(.+)$/.exec(line)) || []
    if (marks === '') {
      sections.at(-1)?.lines.push(line)
      continue
    }
    const parent = sections.findLast(({ depth }) => depth < marks.length)
    sections.push({ depth: marks.length, title, titles: [...(parent?.titles ?? []), title], lines: [] })
  }
  return sections.map(({ title, titles, lines }) => ({ titles, anchor: anchorFor(title), text: lines.join('\n') }))
}

/** The anchors that GitHub gives the headings of one page, in their order; headings of the same text are told apart by a number. */
export const createAnchors = (): ((heading: string) => string) => {
  const taken = new Set<string>()
  return heading => {
    const slug = heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replace(/\s/g, '-')
    let anchor = slug
    for (let i = 1; taken.has(anchor); i++) anchor = `${slug}-${i}`
    taken.add(anchor)
    return anchor
  }
}

export const anchorsOf = (page: Page): ReadonlySet<string> => new Set(sectionsOf(page).map(({ anchor }) => anchor))
