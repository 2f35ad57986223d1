import { readFileSync } from 'node:fs'
import { SourceMap } from 'node:module'
import type { SourceMapPayload } from 'node:module'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Absent where the program runs without the bundle. */
const bundleFolder = fileURLToPath(new URL('../../bundle/', import.meta.url))

/**
 * A stack with lines of the source files in place of those of the bundle. The map of a file is read with the first bug in that file, and
 * the largest takes 70 ms; with --enable-source-maps, Node.js reads all of them in each start.
 */
export const toSourceLines = (stack: string, folder = bundleFolder): string =>
  stack.replace(compiledPlace, (place, url: string, line: string, column: string) => {
    const path = toPath(url)
    if (path === undefined || join(folder, basename(path)) !== path) return place
    return sourcePlace(path, Number(line), Number(column)) ?? place
  })

/** `file:///opt/tollgate/dist/bundle/main.js:12:7` */
const compiledPlace = /(file:\/\/\/[^\s()]{1,1000}?\.js):(\d{1,7}):(\d{1,7})/g

const toPath = (url: string): string | undefined => {
  try {
    return fileURLToPath(url)
  } catch {
    return undefined // a message may have a text like a URL
  }
}

/** `src/cli/start.ts:36:66`; undefined where the map does not tell. */
const sourcePlace = (path: string, line: number, column: number): string | undefined => {
  if (!maps.has(path)) maps.set(path, readMap(`${path}.map`))
  const { originalSource, originalLine, originalColumn } = maps.get(path)?.findEntry(line - 1, column - 1) ?? {}
  if (originalSource === undefined || originalLine === undefined || originalColumn === undefined) return undefined
  return `${originalSource.replace(/^(?:\.\.\/)+/, '')}:${originalLine + 1}:${originalColumn + 1}`
}

/** By the paths of their files; undefined where there is none. */
const maps = new Map<string, SourceMap | undefined>()

const readMap = (path: string): SourceMap | undefined => {
  try {
    return new SourceMap(JSON.parse(readFileSync(path, 'utf8')) as SourceMapPayload) // as write-bundle.ts writes it
  } catch {
    return undefined
  }
}
