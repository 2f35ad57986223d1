import { hash } from 'node:crypto'
import { readFile, readdir } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzip } from 'node:zlib'
import { promisify } from 'node:util'
import type Koa from 'koa'
import { getOrCreate } from '../util/memoize.ts'
import { openOnce } from '../util/async.ts'
import { acceptsGzip } from './compression.ts'
import { ApiError } from './api-errors.ts'
import type { Brand } from './brand.ts'
import type { FirstRequests } from './first-requests.ts'

/** A page of the build: for developers, or for the operator. */
type PageName = 'developer' | 'operator'

/** What the build wrote: a folder for each page, with index.html and assets whose names change with their content. */
const buildDir = fileURLToPath(new URL('../../page', import.meta.url))

/** A file as it is sent, once with and once without compression: other bytes, and so another ETag. */
interface Representation {
  readonly headers: Readonly<Record<string, string | number>>
  readonly bytes: Buffer
}

interface PageFile {
  readonly plain: Representation
  readonly gzipped: Representation
}

/** A year: a changed file has another name. */
const assetMaxAgeSeconds = 31_536_000

/** Of what the build writes. */
const contentTypes: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
}

export interface PageOptions {
  readonly page: PageName
  isPagePath(path: string): boolean
  /** What the HTML file asks for; `hasSession`: for who has the cookie of a session. */
  firstRequests(ctx: Koa.Context, hasSession: boolean): FirstRequests
  readonly sessionCookie: string
  readonly brand?: Brand | undefined
}

const loadedPages = new Map<PageName, Promise<ReadonlyMap<string, PageFile>>>()

/**
 * A page for browsers: assets by their names, and the HTML file for its paths. Other paths are none of its. Calls wait while a file is
 * served, so the headers are made once and the response is written here: through `ctx.body` it took 1.0 to 1.4 times the CPU.
 */
export const servePage = ({ page, isPagePath, firstRequests, sessionCookie, brand }: PageOptions): Koa.Middleware => {
  const readFiles = openOnce(async () => addBrand(await getOrCreate(loadedPages, page, readPageFiles), brand))
  /** By what they ask for. */
  const htmlFiles = new Map<string, Promise<PageFile>>()
  const askForFirst = (files: ReadonlyMap<string, PageFile>, ctx: Koa.Context): PageFile | Promise<PageFile> | undefined => {
    const html = files.get('/index.html')
    if (html === undefined) return undefined
    const { api, code } = firstRequests(ctx, ctx.cookies.get(sessionCookie, { signed: false }) !== undefined)
    const links = [...api.map(linkToApi), ...code.map(name => linkToCode(files, name))].join('')
    return links === '' ? html : getOrCreate(htmlFiles, links, () => addToHead(html, links))
  }
  return async (ctx, next) => {
    const isAsset = ctx.path.startsWith('/assets/')
    if (!isAsset && !isPagePath(ctx.path)) return next()
    if (ctx.method !== 'GET' && ctx.method !== 'HEAD') {
      ctx.set('Allow', 'GET, HEAD')
      throw new ApiError(405, 'method', 'the page is read with GET')
    }
    const files = await readFiles()
    const file = isAsset ? files.get(ctx.path) : await askForFirst(files, ctx)
    if (file === undefined && isAsset) throw new ApiError(404, 'not-found', 'there is no such file')
    if (file === undefined) throw new ApiError(500, 'internal', 'the page has not been built; run `npm run build`')
    respondWithFile(ctx, acceptsGzip(ctx) ? file.gzipped : file.plain)
  }
}

const addBrand = async (files: ReadonlyMap<string, PageFile>, brand: Brand | undefined): Promise<ReadonlyMap<string, PageFile>> => {
  const html = files.get('/index.html')
  if (brand === undefined || html === undefined) return files
  const added = [...brand.files, { path: '/index.html', bytes: Buffer.from(brand.addTo(html.plain.bytes.toString())) }]
  return new Map([...files, ...(await Promise.all(added.map(async ({ path, bytes }) => [path, await toPageFile(path, bytes)] as const)))])
}

/** The page asks for the same again, and gets this response. */
const linkToApi = (path: string): string =>
  `  <link rel="preload" as="fetch" crossorigin href="/api/v1${path.replaceAll('&', '&amp;')}">\n  `

const linkToCode = (files: ReadonlyMap<string, PageFile>, name: string): string => {
  const path = [...files.keys()].find(file => file.startsWith(`/assets/${name}-`))
  return path === undefined ? '' : `  <link rel="modulepreload" crossorigin href="${path}">\n  `
}

/** After scripts and styles: a browser has six connections. */
const addToHead = (html: PageFile, links: string): Promise<PageFile> =>
  toPageFile('/index.html', Buffer.from(html.plain.bytes.toString().replace('</head>', `${links}</head>`)))

const respondWithFile = (ctx: Koa.Context, { headers, bytes }: Representation): void => {
  const { res } = ctx
  ctx.respond = false
  for (const name in headers) res.setHeader(name, headers[name] ?? '')
  res.statusCode = 200
  if (ctx.fresh) res.writeHead(304).end()
  else res.setHeader('Content-Length', bytes.length).end(bytes)
}

const readPageFiles = async (page: PageName): Promise<ReadonlyMap<string, PageFile>> => {
  const pageDir = join(buildDir, page)
  const names = await readdir(pageDir, { recursive: true, withFileTypes: true }).catch(() => [])
  const files = names.filter(entry => entry.isFile()).map(entry => join(entry.parentPath, entry.name))
  return new Map(
    await Promise.all(files.map(async (path): Promise<[string, PageFile]> => [path.slice(pageDir.length), await readPageFile(path)])),
  )
}

const readPageFile = async (path: string): Promise<PageFile> => toPageFile(path, await readFile(path))

const toPageFile = async (path: string, content: Buffer): Promise<PageFile> => {
  const type = contentTypes[extname(path)] ?? 'application/octet-stream'
  const cacheControl = path.includes('/assets/') ? `public, max-age=${assetMaxAgeSeconds}, immutable` : 'no-cache'
  const represent = (bytes: Buffer, encoding?: string): Representation => ({
    headers: {
      'Content-Type': type,
      'Cache-Control': cacheControl,
      Vary: type === contentTypes['.html'] ? 'Accept-Encoding, Cookie' : 'Accept-Encoding',
      ETag: `"${hash('sha256', bytes, 'base64url')}"`,
      ...(encoding !== undefined && { 'Content-Encoding': encoding }),
    },
    bytes,
  })
  return { plain: represent(content), gzipped: represent(await promisify(gzip)(content), 'gzip') }
}
