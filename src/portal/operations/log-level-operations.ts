import type { NewChange } from '../../services/accounts/change-history.ts'
import { logLevels } from '../../services/log-settings.ts'
import { StoreError } from '../../store/store.ts'
import { object, schemaRef } from '../response-schemas.ts'
import type { JsonOf } from '../response-schemas.ts'
import { defineOperation } from './operation.ts'
import type { OperationServices } from './operation.ts'

export const logLevelSchema = { type: 'string', enum: logLevels, description: 'The least level of lines that are written.' } as const

/** What the operations return, by the name in the OpenAPI document. */
export const logLevelSchemas = { LogLevel: object({ level: logLevelSchema }) } as const

export const logLevelOperations = [
  defineOperation({
    name: 'log-level',
    method: 'get',
    path: '/log-level',
    summary: 'The log level of all processes of this gateway.',
    input: { type: 'object', properties: {} },
    output: schemaRef('LogLevel'),
    run: async (_input, services): Promise<LogLevelJson> => ({ level: await services.readLogLevel() }),
    command: { text: ({ level }) => [level] },
  }),
  defineOperation({
    name: 'log-level set',
    method: 'patch',
    path: '/log-level',
    summary: 'Sets the log level of all processes of this gateway, until it is restarted or the option `log` changes.',
    input: { type: 'object', properties: { level: logLevelSchema }, required: ['level'] },
    output: schemaRef('LogLevel'),
    async run({ level }, services): Promise<LogLevelJson> {
      const from = await services.readLogLevel()
      if (from === level) return { level }
      await services.setLogLevel(level)
      await recordOrLog(services, { action: 'log-level-changed', before: { level: from }, after: { level } })
      return { level }
    },
    command: { flags: { level: { placeholder: 'LEVEL' } }, text: ({ level }) => [`the log level is ${level}`] },
  }),
]

type LogLevelJson = JsonOf<typeof logLevelSchemas.LogLevel>

/** The configuration and the log level are no part of the store: they are changed while it is unreachable too. */
export const recordOrLog = async ({ accounts, log }: Pick<OperationServices, 'accounts' | 'log'>, change: NewChange): Promise<void> => {
  try {
    await accounts.record(change)
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
    log.warn({ event: 'change-unrecorded', by: accounts.author, ...change }, error.message)
  }
}
