import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createReferencePages } from './reference.ts'
import { rootDir } from './source-files.ts'

// npm run docs: writes docs/reference/.

const dir = join(rootDir, 'docs/reference')
rmSync(dir, { recursive: true, force: true })
mkdirSync(dir, { recursive: true })
for (const [file, text] of await createReferencePages()) writeFileSync(join(dir, file), text)
