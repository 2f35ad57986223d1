import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { plugins } from '../../plugins/index.ts'
import { editorSchemas, formatSchema } from '../../src/config/editor-schema.ts'
import { createReferencePages } from './reference.ts'
import { rootDir } from './source-files.ts'

/** Writes docs/reference/ and configs/schemas/. */
export const writeReference = async (): Promise<void> => {
  const dir = join(rootDir, 'docs/reference')
  rmSync(dir, { recursive: true, force: true })
  mkdirSync(dir, { recursive: true })
  for (const [file, text] of await createReferencePages()) writeFileSync(join(dir, file), text)

  const schemaDir = join(rootDir, 'configs/schemas')
  mkdirSync(schemaDir, { recursive: true })
  for (const [name, schema] of Object.entries(editorSchemas(plugins))) writeFileSync(join(schemaDir, `${name}.json`), formatSchema(schema))
}
