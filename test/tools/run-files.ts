import { runTestFile } from '../support/tap.ts'

// node run-files.js FILE...: runs compiled test files one after the other in this process, each as a test with its name.

for (const file of process.argv.slice(2)) await runTestFile(file)
