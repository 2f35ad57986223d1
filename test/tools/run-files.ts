// node run-files.js FILE...: runs compiled test files one after the other in this process, each as a test with its name.

// tap names folders of fixtures by the arguments of its process: with these, the names would be too long.
const files = process.argv.splice(2)
const { runTestFile } = await import('../support/tap.ts')
for (const file of files) await runTestFile(file)
