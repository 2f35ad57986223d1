import { readFile, readdir } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzip } from 'node:zlib'
import { promisify } from 'node:util'
import type Koa from 'koa'
import { getOrCreate } from '../util/memoize.ts'
import { ApiError } from './api-error.ts'

/** A page of the build: for developers, or for the operator. */
export type PageName = 'developer' | 'operator'

/** What the build wrote: a folder for each page, with index.html and assets whose names change with their content. */
const buildDir = fileURLToPath(new URL('../../page', import.meta.url))

interface PageFile {
  readonly type: string
  readonly bytes: Buffer
  readonly gzipped: Buffer
}

/** A year: a changed file has another name. */
const assetMaxAgeSeconds = 31_536_000

const loadedPages = new Map<PageName, Promise<ReadonlyMap<string, PageFile>>>()

/** A page for browsers: assets by their names, and the HTML file for its paths. Other paths are none of its. */
export const servePage =
  (page: PageName, isPagePath: (path: string) => boolean): Koa.Middleware =>
  async (ctx, next) => {
    const isAsset = ctx.path.startsWith('/assets/')
    if (!isAsset && !isPagePath(ctx.path)) return next()
    if (ctx.method !== 'GET' && ctx.method !== 'HEAD') throw new ApiError(405, 'method', 'the page is read with GET')
    const files = await getOrCreate(loadedPages, page, readPageFiles)
    const file = files.get(isAsset ? ctx.path : '/index.html')
    if (file === undefined && isAsset) throw new ApiError(404, 'not-found', 'there is no such file')
    if (file === undefined) throw new ApiError(500, 'internal', 'the page has not been built; run `npm run build`')
    if (isAsset) ctx.set('Cache-Control', `public, max-age=${assetMaxAgeSeconds}, immutable`)
    ctx.type = file.type
    ctx.vary('Accept-Encoding')
    if (ctx.acceptsEncodings('gzip', 'identity') === 'gzip') {
      ctx.set('Content-Encoding', 'gzip')
      ctx.body = file.gzipped
    } else {
      ctx.body = file.bytes
    }
  }

const readPageFiles = async (page: PageName): Promise<ReadonlyMap<string, PageFile>> => {
  const pageDir = join(buildDir, page)
  const names = await readdir(pageDir, { recursive: true, withFileTypes: true }).catch(() => [])
  const files = names.filter(entry => entry.isFile()).map(entry => join(entry.parentPath, entry.name))
  return new Map(
    await Promise.all(
      files.map(async (file): Promise<[string, PageFile]> => {
        const bytes = await readFile(file)
        return [file.slice(pageDir.length), { type: extname(file), bytes, gzipped: await promisify(gzip)(bytes) }]
      }),
    ),
  )
}
