import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { readSourceFiles, rootDir } from './source-files.ts'
import type { SourceFile } from './source-files.ts'

// npm run stats [-- --json]: the files and lines of each folder of src, plugins and test, and the words of the documentation.

interface Size {
  readonly folder: string
  readonly files: number
  readonly lines: number
}

const countLines = (text: string): number => text.split('\n').length - 1

const sizeOf = (folder: string, sources: readonly SourceFile[]): Size => ({
  folder,
  files: sources.length,
  lines: sources.reduce((sum, { text }) => sum + countLines(text), 0),
})

/** The first `depth` folders of a path. */
const topFolder = (path: string, depth: number): string => path.split('/').slice(0, -1).slice(0, depth).join('/')

const sizes = (root: string, depth: number): readonly Size[] => {
  const sources = readSourceFiles([root])
  const folders = [...new Set(sources.map(({ file }) => topFolder(file, depth)))].sort()
  const parts = folders.map(folder =>
    sizeOf(
      folder,
      sources.filter(({ file }) => topFolder(file, depth) === folder),
    ),
  )
  return [...parts.filter(({ folder }) => folder !== root || folders.length === 1), sizeOf(root, sources)]
}

const documentationWords = (): number =>
  ['README.md', ...(readdirSync(join(rootDir, 'docs'), { recursive: true }) as string[]).map(file => join('docs', file))]
    .filter(file => file.endsWith('.md'))
    .reduce((sum, file) => sum + readFileSync(join(rootDir, file), 'utf8').split(/\s+/).filter(Boolean).length, 0)

const stats = {
  source: [...sizes('src', 3), ...sizes('plugins', 2)],
  test: sizes('test', 2),
  documentationWords: documentationWords(),
}

const formatSize = ({ folder, files, lines }: Size): string =>
  `${folder.padEnd(36)}${String(files).padStart(6)} files${String(lines).padStart(8)} lines`

const { values } = parseArgs({ options: { json: { type: 'boolean', default: false } } })
if (values.json) console.log(JSON.stringify(stats))
else
  console.log(
    [...stats.source.map(formatSize), '', ...stats.test.map(formatSize), '', `README and docs: ${stats.documentationWords} words`].join(
      '\n',
    ),
  )
