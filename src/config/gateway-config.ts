import { existsSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import { isDirectory } from '../util/files.ts'
import { isJsonObject } from '../util/json.ts'
import type { OptionsLocation } from './ajv-errors.ts'
import { checkOptions } from './check-options.ts'
import type { EffectiveFile } from './effective-file.ts'
import { gatewaySchema } from './gateway-options.ts'
import { gatewayRules } from './gateway-rules.ts'
import { networkSchema } from './network-schema.ts'
import { unsetVariableProblems } from './optional-variables.ts'
import type { Problem } from './problem.ts'
import type { GatewayConfig } from './types.ts'
import type { Env } from './variables.ts'
import { checkTls } from './tls-check.ts'
import type { TlsCheck } from './tls-check.ts'
import { readYamlFile } from './yaml-file.ts'
import type { YamlFile } from './yaml-file.ts'

export interface GatewayReadResult extends TlsCheck {
  readonly config: GatewayConfig | undefined
  readonly effective?: EffectiveFile
}

/** Without a section `networks`: each network is a file. */
const networkFile = {
  name: 'networks/NAME.yaml',
  schema: { type: 'object', properties: { ...networkSchema.properties, networks: networkSchema } },
} as const satisfies OptionsLocation['otherFile']

/** Reads `<dir>/gateway.yaml`. The config is present exactly when there are no problems. */
export const readGatewayConfig = (dir: string, env: Env): GatewayReadResult => {
  const source = readYamlFile(join(dir, 'gateway.yaml'), env)
  if (source.value === undefined) return { config: undefined, problems: missingFileProblems(source), warnings: [] }
  const {
    options,
    effective,
    problems: schemaProblems,
    warnings: schemaWarnings,
  } = checkOptions({ source, namePath: [], owner: '', schema: gatewaySchema, otherFile: networkFile })
  const ruleProblems = gatewayRules.flatMap(rule => rule(source))
  const { problems: tlsProblems, warnings: tlsWarnings, ...tlsCheck } = checkTls(source)
  const problems = [...source.problems, ...schemaProblems, ...ruleProblems, ...tlsProblems, ...unsetVariableProblems(source)]
  const warnings = [...schemaWarnings, ...tlsWarnings]
  if (options === undefined || problems.length > 0) return { config: undefined, problems, warnings }

  const { workers, plans } = options
  const config: GatewayConfig = {
    ...options,
    plans: Object.fromEntries(Object.entries(plans).map(([name, plan]) => [name, { name, ...plan }])),
    workers: workers === 'auto' ? availableParallelism() : workers,
  }
  const value = effective()
  return { config, problems, warnings, ...tlsCheck, ...(isJsonObject(value) && { effective: { source, value } }) }
}

export const missingDirectoryHint = 'give the directory of the configuration with --config DIR, or write one with `tollgate init`'

const missingFileProblems = ({ path, problems, isEmpty }: YamlFile): readonly Problem[] => {
  const hint = !isDirectory(dirname(path))
    ? missingDirectoryHint
    : existsSync(path.replace(/yaml$/, 'yml'))
      ? 'rename gateway.yml to gateway.yaml'
      : 'it requires `store` and `plans`: copy the gateway.yaml that ships with the gateway, or that `tollgate init --config NEW_DIR` writes'
  const isMissing = isEmpty || problems.some(({ message }) => message === 'no such file')
  return isMissing ? problems.map(problem => ({ ...problem, hint })) : problems
}
