import { runTests } from './run-tests.ts'

// npm run test:one FILE... (npm has compiled before)

const files = process.argv.slice(2)
try {
  if (files.length === 0) throw new Error('usage: npm run test:one FILE, such as test/core/network.test.ts')
  process.exitCode = runTests(files) ? 0 : 1
} catch (error) {
  console.error((error as Error).message)
  process.exitCode = 64
}
