import { watch } from 'node:fs'
import { join } from 'node:path'
import { readSourceFiles, rootDir, withImporters } from './source-files.ts'
import { runTests, setUp } from './run-tests.ts'

// npm run test:watch [FILE...]: compiles after each change and runs these tests, or those that import what has changed.

const folders = ['src', 'plugins', 'test']

/** Editors and git write several files for one change. */
const quietMs = 100

const selectedTests = process.argv.slice(2)
const changedFiles = new Set<string>()
let timer: NodeJS.Timeout | undefined

const affectedTests = (): readonly string[] =>
  [...withImporters(readSourceFiles(folders), [...changedFiles])].filter(file => file.endsWith('.test.ts'))

const compileAndTest = (): void => {
  const isCompiled = setUp()
  const tests = selectedTests.length > 0 ? selectedTests : affectedTests()
  changedFiles.clear()
  if (isCompiled && tests.length > 0) runTests(tests)
  console.log('waiting for changes')
}

const onChange = (file: string): void => {
  changedFiles.add(file)
  clearTimeout(timer)
  timer = setTimeout(compileAndTest, quietMs)
}

for (const folder of folders) {
  watch(join(rootDir, folder), { recursive: true }, (_event, file) => {
    if (file?.endsWith('.ts')) onChange(join(folder, file))
  })
}
compileAndTest()
