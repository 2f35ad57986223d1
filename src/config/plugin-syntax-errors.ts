import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { PluginFile } from '../plugin/plugin-fault.ts'
import type { Problem } from './problem.ts'

/** A character of a file, and its line. */
export type SourcePlace = Pick<Problem, 'file' | 'line' | 'column' | 'sourceLine'>

/**
 * Where the syntax of a plugin, or of a file that it imports, is wrong. Node tells in the stack of an error of linking, and of
 * any other only when it checks the file, which takes 40 ms.
 */
export const placeOfSyntaxError = (error: SyntaxError, plugin: PluginFile): SourcePlace | undefined =>
  readPlace(error.stack ?? '', plugin) ?? findInFiles(plugin)

/**
 * `file:///etc/region.js:3`, the line, and a caret below it; at the end of the file neither line nor caret. Of TypeScript the line before is
 * there, too.
 */
const placePattern = /^((?:file:\/\/)?\/.{1,1000}):(\d{1,7})\n(?:(?:.*\n)??(.*)\n( *\^))?/

const readPlace = (text: string, plugin: PluginFile): SourcePlace | undefined => {
  const [, location, line, sourceLine = '', caret] = placePattern.exec(text) ?? []
  if (location === undefined) return undefined
  const path = location.startsWith('file:') ? fileURLToPath(location) : location
  const file = join(dirname(plugin.shownAs), relative(dirname(plugin.path), path))
  if (caret === undefined) return { file, ...endOf(path) }
  return { file, line: Number(line), column: [...sourceLine.slice(0, caret.length - 1)].length + 1, sourceLine }
}

/** Behind the last word of the file. */
const endOf = (path: string): Omit<SourcePlace, 'file'> => {
  const lines = readFileSync(path, 'utf8').trimEnd().split('\n')
  const sourceLine = lines.at(-1) ?? ''
  return { line: lines.length, column: [...sourceLine].length + 1, sourceLine }
}

/** So many files of a plugin are checked at most. */
const maxCheckedFiles = 20

const findInFiles = (plugin: PluginFile): SourcePlace | undefined => {
  const paths = [plugin.path]
  for (let i = 0; i < Math.min(paths.length, maxCheckedFiles); i += 1) {
    const path = paths[i] ?? ''
    const place = readPlace(checkSyntax(path), plugin)
    if (place !== undefined) return place
    paths.push(...importedFiles(path).filter(imported => !paths.includes(imported)))
  }
  return undefined
}

/** What Node.js reports of the file. It reports nothing of an ES module whose name ends in .js, unless the text alone is checked. */
const checkSyntax = (path: string): string => {
  if (typeScriptPattern.test(path)) return checkModuleText(runNode(['--no-warnings', '-e', stripTypes, path]).stdout, path)
  const found = runNode(['--check', path]).stderr
  const text = readFileSync(path, 'utf8')
  return found === '' && moduleSyntaxPattern.test(text) ? checkModuleText(text, path) : found
}

const checkModuleText = (text: string, path: string): string =>
  runNode(['--check', '--input-type=module'], text).stderr.replace(/^\[stdin\](?=:\d)/, () => path)

const runNode = (args: readonly string[], input = ''): { readonly stdout: string; readonly stderr: string } =>
  spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 5_000, input })

const typeScriptPattern = /\.[cm]?ts$/
const moduleSyntaxPattern = /^\s*(?:import|export)\b/m

/** Each character stays in its place. A child runs it, as Node.js prints a warning of it. */
const stripTypes = "process.stdout.write(require('module').stripTypeScriptTypes(require('fs').readFileSync(process.argv[1], 'utf8')))"

/** The files beside it that a file imports. */
const importedFiles = (path: string): readonly string[] =>
  [...readFileSync(path, 'utf8').matchAll(/\b(?:from|import)\s*['"](\.{1,2}\/[^'"\n]{1,500})['"]/g)]
    .map(([, specifier = '']) => resolve(dirname(path), specifier))
    .filter(existsSync)
