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

/** The anchors that GitHub gives the headings of a page; headings of the same text are told apart by a number. */
export const anchorsOf = ({ text }: Page): ReadonlySet<string> => {
  const anchors = new Set<string>()
  for (const [, heading = ''] of withoutBlocks(text).matchAll(/^#{1,6} +(.+)$/gm)) {
    const slug = heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replace(/\s/g, '-')
    let anchor = slug
    for (let i = 1; anchors.has(anchor); i++) anchor = `${slug}-${i}`
    anchors.add(anchor)
  }
  return anchors
}
