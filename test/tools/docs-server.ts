import { once } from 'node:events'
import { readFileSync, readdirSync, statSync } from 'node:fs'
import { createServer } from 'node:http'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname, join, normalize } from 'node:path'
import { Marked } from 'marked'
import { createAnchors, linkedFilesOf, readPages } from '../docs/markdown.ts'
import type { Page } from '../docs/markdown.ts'
import { createDocsSearch } from './docs-search.ts'
import type { Hit } from './docs-search.ts'

/** Serves the pages, and what they link to, to this machine alone. Resolves with the URL. */
export const serveDocs = async (port: number): Promise<string> => {
  const server = createDocsServer().listen(port, '127.0.0.1')
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/` // it listens on a port
}

/** The files are read for each request: a changed page needs a reload in the browser alone. */
export const createDocsServer = (): Server =>
  createServer((request, response) => {
    const [path = '', query] = (request.url ?? '').split('?', 2)
    const { status, type, body } = answer(normalize(path).slice(1), new URLSearchParams(query).get('q'))
    response.writeHead(status, { 'content-type': type }).end(body)
  })

interface Answer {
  readonly status: number
  readonly type: string
  readonly body: string | Buffer
}

/** Paths are those of the repository, so that the links between pages hold. */
const answer = (path: string, question: string | null): Answer => {
  const pages = readPages()
  const html = (title: string, content: string, status = 200): Answer => ({
    status,
    type: 'text/html; charset=utf-8',
    body: layout({ title, content, pages, question: question ?? '' }),
  })
  if (question !== null) return html(`Search: ${question}`, formatHits(createDocsSearch(pages)(question)))
  const page = pages.find(({ file }) => file === (path || 'README.md'))
  if (page !== undefined) return html(titleOf(page), toHtml(page))
  const file = path.replace(/\/$/, '')
  if (!isLinked(file, pages)) return html('Not found', `<p>No page links to <code>${escapeHtml(path)}</code>.</p>`, 404)
  if (statSync(file).isDirectory()) return html(file, listFolder(file))
  return { status: 200, type: types[extname(file)] ?? 'text/plain; charset=utf-8', body: readFileSync(file) }
}

const types: Readonly<Record<string, string>> = { '.png': 'image/png', '.svg': 'image/svg+xml' }

/** Is it a file, a folder or a file of a folder that a page links to? Nothing else of the repository is served. */
const isLinked = (file: string, pages: readonly Page[]): boolean => {
  const linked = new Set(pages.flatMap(linkedFilesOf).map(each => each.replace(/\/$/, '')))
  return linked.has(file) || (linked.has(join(file, '..')) && statSync(file, { throwIfNoEntry: false })?.isFile() === true)
}

const listFolder = (folder: string): string =>
  `<h1>${escapeHtml(folder)}</h1><ul>${readdirSync(folder)
    .map(name => `<li><a href="/${escapeHtml(join(folder, name))}">${escapeHtml(name)}</a></li>`)
    .join('')}</ul>`

const titleOf = ({ file, text }: Page): string => /^# (.+)$/m.exec(text)?.[1] ?? file

const toHtml = ({ text }: Page): string => {
  const anchorFor = createAnchors()
  const marked = new Marked({
    async: false,
    renderer: {
      heading({ tokens, depth, text: heading }) {
        return `<h${depth} id="${anchorFor(heading)}">${this.parser.parseInline(tokens)}</h${depth}>\n`
      },
    },
  })
  return marked.parse(text) as string // it is not async
}

const maxHits = 10

const formatHits = (hits: readonly Hit[]): string =>
  hits.length === 0
    ? '<p>Nothing was found.</p>'
    : `<ol>${hits
        .slice(0, maxHits)
        .map(
          ({ target, titles, excerpt }) =>
            `<li><a href="/${target}">${titles.map(escapeHtml).join(' › ')}</a><br>${escapeHtml(excerpt)} <small>${escapeHtml(target)}</small></li>`,
        )
        .join('')}</ol>`

const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, char => `&#${char.charCodeAt(0)};`)

const style = `
  :root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
  body { max-width: 60rem; margin: 0 auto; padding: 1rem }
  nav { font-size: .875rem; margin: .5rem 0 1.5rem }
  input { font: inherit; width: min(30rem, 70%) }
  pre, code { font: .875em/1.5 ui-monospace, monospace; background: color-mix(in srgb, currentColor 8%, transparent) }
  pre { overflow-x: auto; padding: .5rem } pre code { background: none }
  table { border-collapse: collapse; display: block; overflow-x: auto } th, td { border: 1px solid #8888; padding: .25rem .5rem; text-align: left; vertical-align: top }
  img { max-width: 100%; height: auto } ol li { margin-bottom: .75rem }`

interface Layout {
  readonly title: string
  readonly content: string
  readonly pages: readonly Page[]
  readonly question: string
}

const layout = ({ title, content, pages, question }: Layout): string => `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escapeHtml(title)}</title>
<style>${style}</style>
<form action="/"><input type="search" name="q" aria-label="Search the documentation" placeholder="Ask in your own words" value="${escapeHtml(question)}"> <button>Search</button></form>
<nav>${pages.map(page => `<a href="/${page.file}">${escapeHtml(titleOf(page))}</a>`).join(' · ')}</nav>
<main>${content}</main>
</html>
`
