import { formatEffectiveFile } from '../../config/effective-file.ts'
import type { EffectiveFile } from '../../config/effective-file.ts'
import type { ReloadControl } from '../../server/admin.ts'
import { diffLines } from '../../util/line-diff.ts'
import { ApiError } from '../api-errors.ts'
import { logLevelSchema, recordOrLog } from '../operations/log-level-operations.ts'
import { countOrNull, flag, listOf, object, schemaRef, text, textOrNull } from '../response-schemas.ts'
import { defineOperatorRoute } from './operator-route.ts'
import type { OperatorServices } from './operator-route.ts'

type ReloadOutcome = Awaited<ReturnType<ReloadControl['reload']>>

const changes = listOf(
  object({
    kind: { type: 'string', enum: ['added', 'changed', 'removed'] },
    path: { type: 'string', description: 'Such as `base-mainnet.cache.maxBytes`. Values are not named: they may be secrets.' },
    needsRestart: { ...flag, description: 'A reload does not apply it; a restart does.' },
  }),
)

const problems = listOf(object({ file: textOrNull, line: countOrNull, column: countOrNull, message: text, hint: textOrNull }))

/** What the routes return, by the name in the OpenAPI document. */
export const configurationSchemas = {
  Configuration: object({
    files: {
      ...listOf(object({ file: text, text })),
      description: 'gateway.yaml and the networks as they were applied last: variables replaced, defaults filled in, secrets masked.',
    },
    unserved: { ...listOf(object({ network: text, variables: listOf(text) })), description: 'Networks that lack variables.' },
    changes: { ...changes, description: 'What a reload would change now.' },
    differences: {
      ...listOf(
        object({
          file: text,
          lines: listOf({
            oneOf: [object({ kind: { type: 'string', enum: ['same', 'added', 'removed'] }, text }), { type: 'null' }],
          }),
        }),
      ),
      description:
        'Where the files, as `files` has them, differ from what is in force. Secrets are masked: another secret is in `changes` alone. Null: lines that are left out.',
    },
    problems: { ...problems, description: 'Why a reload would be refused now.' },
    logLevel: logLevelSchema,
  }),
  Reload: object({ applied: { ...flag, description: 'False: the configuration from before serves on.' }, changes, problems }),
} as const

export const configurationRoutes = [
  defineOperatorRoute({
    method: 'get',
    path: '/configuration',
    summary: 'The configuration that is in force, and what a reload would change.',
    response: schemaRef('Configuration'),
    handle: (_request, services) => readConfiguration(services),
  }),
  defineOperatorRoute({
    method: 'post',
    path: '/configuration/reload',
    summary: 'Applies the files, or says why they cannot be applied.',
    response: schemaRef('Reload'),
    handle: (_request, services) => reload(services),
  }),
]

/** What is in force, and what the files would change. */
const readConfiguration = async ({ reloader, logLevel }: OperatorServices) => {
  const { files, unserved } = reloader?.current ?? { files: [], unserved: [] }
  const preview = await reloader?.preview()
  return {
    files: files.map(file => ({ file: file.source.file, text: formatEffectiveFile(file) })),
    unserved: unserved.map(({ network, variables }) => ({ network, variables })),
    ...toJson(preview ?? { changes: [], problems: [] }),
    differences: differencesOf(files, preview?.files ?? files),
    logLevel: logLevel.level,
  }
}

export type ConfigurationJson = Awaited<ReturnType<typeof readConfiguration>>

const reload = async (services: OperatorServices) => {
  const { reloader } = services
  if (reloader === undefined) throw new ApiError(409, 'no-reload', 'this gateway does not read its configuration anew')
  const report = await reloader.reload()
  const paths = report.changes.filter(({ needsRestart }) => !needsRestart).map(({ path }) => path)
  if (report.isApplied && paths.length > 0) await recordOrLog(services, { action: 'configuration-reloaded', after: { changes: paths } })
  return { applied: report.isApplied, ...toJson(report) }
}

export type ReloadJson = Awaited<ReturnType<typeof reload>>

const maxContextLines = 2

const differencesOf = (before: readonly EffectiveFile[], after: readonly EffectiveFile[]) => {
  const byName = (files: readonly EffectiveFile[]) => new Map(files.map(file => [file.source.file, file]))
  const [oldFiles, newFiles] = [byName(before), byName(after)]
  const textOf = (file: EffectiveFile | undefined): string => (file === undefined ? '' : formatEffectiveFile(file))
  return [...new Set([...oldFiles.keys(), ...newFiles.keys()])].flatMap(file => {
    const [oldFile, newFile] = [oldFiles.get(file), newFiles.get(file)]
    // Variables stay the same while the gateway runs; but a part of gateway.yaml may wait for a restart.
    if (newFile?.network !== undefined && oldFile?.source.text === newFile.source.text) return []
    const lines = diffLines(textOf(oldFile), textOf(newFile), maxContextLines)
    return lines.length === 0 ? [] : [{ file, lines }]
  })
}

const toJson = ({ changes, problems }: Pick<ReloadOutcome, 'changes' | 'problems'>) => ({
  changes,
  problems: problems.map(({ file = null, line = null, column = null, message, hint = null }) => ({ file, line, column, message, hint })),
})
