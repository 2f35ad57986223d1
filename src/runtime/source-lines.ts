import { readFileSync } from 'node:fs'
import { SourceMap } from 'node:module'
import type { SourceMapPayload } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Absent where the program runs without the bundle. */
const bundleFolder = fileURLToPath(new URL('../../bundle/', import.meta.url))

/**
 * A stack with lines of the source files in place of those of the bundle. The map of a file is read with the first bug in that file, and
 * the largest takes 70 ms; with --enable-source-maps, Node.js reads all of them in each start.
 */
export const toSourceLines = (stack: string, folder = bundleFolder): string => {
  const [start = '', ...rest] = stack.split(folder)
  return start + rest.map(text => withSourcePlace(text, folder) ?? folder + text).join('')
}

/** `text` begins behind the folder, as in `main.js:12:7)`; undefined where no map tells. */
const withSourcePlace = (text: string, folder: string): string | undefined => {
  const [place, file = '', line, column] = /^([^\s()/\\]{1,200}\.js):(\d{1,7}):(\d{1,7})/.exec(text) ?? []
  const source = place === undefined ? undefined : sourcePlace(join(folder, file), Number(line), Number(column))
  return source === undefined ? undefined : source + text.slice(place?.length)
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
