// The last step of the build: `node dist/src/config/write-parsed-tables.js`.
import { fileURLToPath } from 'node:url'
import { writeParsedTables } from './parsed-tables.ts'

writeParsedTables(fileURLToPath(new URL('../../../configs', import.meta.url)))
