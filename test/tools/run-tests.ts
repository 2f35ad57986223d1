import { spawnSync } from 'node:child_process'
import { join, relative, resolve } from 'node:path'
import { rootDir } from './source-files.ts'

/** Installs and compiles where needed; false when that failed, which it has printed. */
export const setUp = (): boolean => runNode('src/cli/setup.mjs', [])

/** Runs these test files, given as TypeScript or as compiled files; false when one failed. */
export const runTests = (files: readonly string[]): boolean => runNode('dist/test/tools/tap-runner.js', files.map(compiledTestOf))

const runNode = (script: string, args: readonly string[]): boolean =>
  spawnSync(process.execPath, [join(rootDir, script), ...args], { cwd: rootDir, stdio: 'inherit' }).status === 0

/** Throws an Error with a message for the terminal when it is not a test. */
const compiledTestOf = (path: string): string => {
  const file = relative(rootDir, resolve(rootDir, path))
  if (!/^(dist\/)?test\/.*\.test\.(ts|js)$/.test(file))
    throw new Error(`${path} is not a test: expected a path such as test/core/network.test.ts`)
  return join('dist', file.replace(/^dist\//, '').replace(/\.ts$/, '.js'))
}
