// Run by the build: writes what starts and commands would else parse and compile each time.
import { fileURLToPath } from 'node:url'
import { gatewaySchema } from '../config/gateway-schema.ts'
import { networkSchema } from '../config/network-config.ts'
import { writeParsedTables } from '../config/method-tables.ts'
import { useStepSchema } from '../config/steps.ts'
import { writeValidators } from '../config/write-validators.ts'
import { caseFileSchema } from '../testing/case-schema.ts'
import { loadBuiltInPlugins } from './commands.ts'
import { writeBundle } from './write-bundle.ts'

const plugins = await loadBuiltInPlugins()
writeParsedTables(fileURLToPath(new URL('../../../configs', import.meta.url)))
writeValidators([gatewaySchema, networkSchema, useStepSchema, caseFileSchema, ...plugins.map(({ options }) => options)])
await writeBundle()
