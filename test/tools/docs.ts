import { parseArgs } from 'node:util'

// npm run docs: writes docs/reference/ and configs/schemas/; with --serve, serves all pages with a search.

const { values } = parseArgs({ options: { serve: { type: 'boolean' }, port: { type: 'string', default: '8090' } } })
if (values.serve === true) await serve(Number(values.port))
else await (await import('./generate-reference.ts')).writeReference()

async function serve(port: number): Promise<void> {
  try {
    console.log(`Documentation with a search: ${await (await import('./docs-server.ts')).serveDocs(port)}`)
  } catch (error) {
    console.error(`docs: ${error instanceof Error ? error.message : String(error)}; --port names another port`)
    process.exitCode = 1
  }
}
