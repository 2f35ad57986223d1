import { hostname } from 'node:os'
import { changeActions } from '../../services/accounts/change-history.ts'
import type { ChangeAction } from '../../services/accounts/change-history.ts'
import { listOf, schemaRef } from '../response-schemas.ts'
import { defineOperatorRoute } from './operator-route.ts'
import type { OperatorServices } from './operator-route.ts'

/** How the operator has signed in, and to what. */
export interface OperatorSession {
  readonly by: OperatorServices['authentication']['by']
  /** As `admin.tokens` has it; null with `admin.token`. */
  readonly name: string | null
  readonly version: string
  /** The name of its machine, container or pod. */
  readonly host: string
  /** The URL of the dashboard for developers. */
  readonly dashboard: string | null
  /** All kinds of entries of the log of changes. */
  readonly changeActions: readonly ChangeAction[]
}

export const operatorReportRoutes = [
  defineOperatorRoute({
    method: 'get',
    path: '/plans',
    summary: 'The plans of gateway.yaml.',
    response: listOf(schemaRef('Plan')),
    handle: (_request, { plans }) => Object.values(plans),
  }),
  defineOperatorRoute({
    method: 'get',
    path: '/session',
    summary: 'How you have signed in, and to what.',
    response: schemaRef('Session'),
    handle(_request, { authentication, version, dashboardUrl, startQueries }): OperatorSession {
      startQueries()
      const { by, name = null } = authentication
      return { by, name, version, host: hostname(), dashboard: dashboardUrl() ?? null, changeActions }
    },
  }),
]
