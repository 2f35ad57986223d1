import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { displayPath } from '../config/config-files.ts'
import { editorSchemas, formatSchema, schemaNames } from '../config/editor-schema.ts'
import type { SchemaName, UsedPlugin } from '../config/editor-schema.ts'
import { loadConfig } from '../config/load.ts'
import type { LoadedConfig } from '../config/load.ts'
import type { LoadablePlugin } from '../plugin/deferred-plugin.ts'
import { createFolder } from '../util/files.ts'
import { isJsonObject } from '../util/json.ts'
import { valueAt } from '../util/json-path.ts'
import { formatAlternatives } from '../util/did-you-mean.ts'
import { configOption, readOptionalArgument } from './args.ts'
import { UsageError, commandSummaries, exitCodes } from './command.ts'
import type { Command, CommandOption } from './command.ts'

const options = {
  write: { type: 'boolean', default: false, description: 'Writes all schemas to the folder `schemas` of the configuration directory.' },
  config: configOption,
} as const satisfies Readonly<Record<string, CommandOption>>

/** JSON Schemas for YAML editors, with the options of the external plugins that the networks use. */
export const createSchemaCommand = (plugins: readonly LoadablePlugin[]): Command => ({
  name: 'schema',
  summary: commandSummaries.schema,
  usage: ['schema KIND [--config DIR]', 'schema --write [--config DIR]'],
  positionals: { KIND: `The kind of file: ${formatAlternatives(schemaNames)}.` },
  options,
  examples: {
    'schema network': 'the schema of networks/NAME.yaml',
    'schema --write': 'all schemas, to configs/schemas',
  },
  async run(args, { env, out }) {
    const { values, positional: kind } = readOptionalArgument(args, options)
    if (values.write === (kind !== undefined)) throw new UsageError(`expected --write, or one of ${formatAlternatives(schemaNames)}`)
    const name = kind === undefined ? undefined : readSchemaName(kind)
    const schemas = editorSchemas(plugins, usedPlugins(await loadConfig(values.config, plugins, env)))
    if (name !== undefined) out(formatSchema(schemas[name]).trimEnd())
    else writeSchemas(join(values.config, 'schemas'), schemas).forEach(path => out(`wrote ${displayPath(path)}`))
    return exitCodes.ok
  },
})

const readSchemaName = (text: string): SchemaName => {
  const found = schemaNames.find(name => name === text)
  if (found === undefined) throw new UsageError(`unknown kind of file "${text}": expected ${formatAlternatives(schemaNames)}`)
  return found
}

/** The external plugins of all networks without problems. */
const usedPlugins = ({ networks, effective }: LoadedConfig): readonly UsedPlugin[] => {
  const used = new Map<string, UsedPlugin>()
  for (const { value } of effective) {
    const steps = networks.find(({ name }) => name === value['network'])?.steps ?? []
    for (const [index, { file, plugin }] of steps.entries()) {
      const step = valueAt(value, ['pipeline', index])
      const use = isJsonObject(step) ? step['use'] : undefined
      if (file !== undefined && typeof use === 'string') used.set(use, { use, plugin })
    }
  }
  return [...used.values()]
}

const writeSchemas = (dir: string, schemas: ReturnType<typeof editorSchemas>): readonly string[] => {
  createFolder(dir)
  return schemaNames.map(name => {
    const path = join(dir, `${name}.json`)
    writeFileSync(path, formatSchema(schemas[name]))
    return path
  })
}
