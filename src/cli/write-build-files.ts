// Run by the build: writes what starts and commands would else parse, compile and read from many files each time.
import { fileURLToPath } from 'node:url'
import { gatewaySchema } from '../config/gateway-options.ts'
import { networkSchema } from '../config/network-options.ts'
import { writeParsedTables } from '../config/method-tables.ts'
import { optionsCompiler } from '../config/options-compiler.ts'
import { toJsonSchema } from '../config/schema.ts'
import { operations } from '../portal/operations/index.ts'
import { operatorRoutes } from '../portal/operator/operator-app.ts'
import { routes as portalRoutes } from '../portal/portal-app.ts'
import { useStepSchema } from '../config/steps.ts'
import { ajvSchemaOf, ruleSchemas } from '../services/method-table/check-params.ts'
import { caseFileSchema } from '../testing/case-schema.ts'
import { loadBuiltInPlugins } from './built-in-plugins.ts'
import { writeBundle } from './write-bundle.ts'

const plugins = await loadBuiltInPlugins()
const tables = writeParsedTables(fileURLToPath(new URL('../../../configs', import.meta.url)))
const rules = tables.flatMap(({ entries }) => [...entries.values()].flatMap(({ positions = [] }) => positions.map(({ rule }) => rule)))
ruleSchemas.write(rules.map(ajvSchemaOf))
const inputs = [
  ...operations.map(({ input }) => input),
  ...[...operatorRoutes, ...portalRoutes].flatMap(({ query, body }) => [query, body]),
]
const schemas = [
  ...[gatewaySchema, networkSchema, useStepSchema, caseFileSchema, ...plugins.map(({ options }) => options)],
  ...inputs.filter(schema => schema !== undefined),
]
optionsCompiler.write(schemas.map(toJsonSchema))
await writeBundle()
