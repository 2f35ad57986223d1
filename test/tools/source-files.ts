import { readFileSync, readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The root of the repository. */
export const rootDir = fileURLToPath(new URL('../../..', import.meta.url))

export interface SourceFile {
  /** Relative to the root. */
  readonly file: string
  readonly text: string
  /** Without comments, and with the insides of strings removed. */
  readonly code: string
  /** The files of this project that it imports, types included. */
  readonly imports: readonly string[]
  /** Files and packages that it imports, without those that it imports only for types. */
  readonly valueImports: readonly string[]
  /** The same without dynamic imports: the files and packages that are loaded before it. */
  readonly staticImports: readonly string[]
}

/** All TypeScript files of these folders. */
export const readSourceFiles = (folders: readonly string[]): readonly SourceFile[] =>
  folders.flatMap(folder =>
    (readdirSync(join(rootDir, folder), { recursive: true }) as string[])
      .filter(file => /\.tsx?$/.test(file))
      .sort()
      .map(file => readSourceFile(join(folder, file))),
  )

const readSourceFile = (file: string): SourceFile => {
  const text = readFileSync(join(rootDir, file), 'utf8')
  const uncommented = stripComments(text, string => string)
  const resolve = (specifier: string): string => (specifier.startsWith('.') ? join(dirname(file), specifier) : specifier)
  const specifiersOf = (pattern: RegExp) => [...uncommented.matchAll(pattern)].map(([, specifier = '']) => resolve(specifier))
  const staticImports = specifiersOf(/^(?:import|export) (?!type\b)(?:[\w*, ]*(?:\{[^}]*\})? from )?'([^']+)'/gm)
  return {
    file,
    text,
    code: stripComments(text, () => "''"),
    imports: specifiersOf(/\b(?:from|import)\s*\(?\s*'(\.[^']+)'/g),
    valueImports: [...staticImports, ...specifiersOf(/\bimport\(\s*'([^']+)'/g)],
    staticImports,
  }
}

const stripComments = (text: string, replaceString: (string: string) => string): string =>
  text.replace(/\/\*[^]*?\*\/|\/\/.*|(['"])(?:\\.|(?!\1)[^\\\n])*\1|`(?:\\.|[^`\\])*`/g, part =>
    part.startsWith('/') ? '' : replaceString(part),
  )

/** `files`, and all files that import one of them, directly or through others. */
export const withImporters = (sources: readonly SourceFile[], files: readonly string[]): ReadonlySet<string> => {
  const found = new Set(files)
  // A Set that grows while it is iterated passes on what was added.
  for (const file of found) for (const source of sources) if (source.imports.includes(file)) found.add(source.file)
  return found
}

const numericConstantPattern = /^(?:export )?const (\w+)(?:: number)? = [-\d_.a-fxo*+/<() ]*\d[-\d_.a-fxo*+/<() ]*(?: as const)?$/gm

/** A limit in front (`maxRetries`) or a unit behind (`timeoutMs`). */
const unitOrLimitPattern =
  /^(max|min|default)[A-Z]|(Per[A-Z]\w*|Ms|Micros|Seconds|Minutes|Hours|Days|Bytes|Bits|Px|Blocks|Digits|Chars|Port|Code|Id|Version|Percent|Ratio|Factor|Weight|Threshold|Share|Count|Depth)$/

/** `file name` for each numeric constant whose name says neither its unit nor what it limits. */
export const findUnitlessConstants = (sources: readonly SourceFile[]): readonly string[] =>
  sources.flatMap(({ file, code }) =>
    [...code.matchAll(numericConstantPattern)].flatMap(([, name = '']) => (unitOrLimitPattern.test(name) ? [] : [`${file} ${name}`])),
  )
