import { accountOperations, accountSchemas } from './account-operations.ts'
import { alertOperations, alertSchemas } from './alert-operations.ts'
import { changeOperations, changeSchemas } from './change-operations.ts'
import { evidenceOperations, evidenceSchemas } from './evidence-operations.ts'
import { keyOperations, keySchemas } from './key-operations.ts'
import { incidentOperations, incidentSchemas } from './incident-operations.ts'
import { linkOperations, linkSchemas } from './link-operations.ts'
import { logLevelOperations, logLevelSchemas } from './log-level-operations.ts'
import { nodeOperations, nodeSchemas } from './node-operations.ts'
import type { Operation } from './operation.ts'
import { peopleOperations, peopleSchemas } from './people-operations.ts'
import { requestOperations, requestSchemas } from './request-operations.ts'
import { errorOperations, usageOperations, usageSchemas } from './usage-operations.ts'

/** All that operators can do both over the API of the admin listener and on the command line. */
export const operations: readonly Operation[] = [
  ...accountOperations,
  ...linkOperations,
  ...peopleOperations,
  ...keyOperations,
  ...alertOperations,
  ...changeOperations,
  ...usageOperations,
  ...errorOperations,
  ...requestOperations,
  ...nodeOperations,
  ...incidentOperations,
  ...evidenceOperations,
  ...logLevelOperations,
]

/** What operations return, by the name in the OpenAPI document. */
export const operationSchemas = {
  ...accountSchemas,
  ...linkSchemas,
  ...peopleSchemas,
  ...keySchemas,
  ...alertSchemas,
  ...changeSchemas,
  ...usageSchemas,
  ...requestSchemas,
  ...nodeSchemas,
  ...incidentSchemas,
  ...evidenceSchemas,
  ...logLevelSchemas,
} as const
