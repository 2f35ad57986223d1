import { changeActions } from '../../services/accounts/change-history.ts'
import type { ChangeAction } from '../../services/accounts/change-history.ts'
import { hourMs, hoursPerDay, isoTime } from '../../util/dates.ts'
import { dimensions } from '../queries/usage-dimensions.ts'
import type { Dimension } from '../queries/usage-dimensions.ts'
import type { UsageTotal } from '../queries/usage-queries.ts'
import { listOf, schemaRef } from '../openapi.ts'
import { defineOperatorRoute } from './operator-route.ts'
import type { OperatorServices } from './operator-route.ts'

/** Calls and credits of all accounts. */
export interface TrafficReport {
  readonly by: 'account' | Dimension
  /** ISO 8601. */
  readonly from: string
  /** All groups; `groups` has those that were asked for. */
  readonly groupCount: number
  readonly groups: readonly TrafficGroup[]
}

export interface TrafficGroup extends UsageTotal {
  /** The name of the account; empty when it no longer exists. */
  readonly account?: string
}

/** How the operator has signed in, and to what. */
export interface OperatorSession {
  readonly by: OperatorServices['authentication']
  readonly version: string
  /** The URL of the dashboard for developers. */
  readonly dashboard: string | null
  /** All kinds of entries of the log of changes. */
  readonly changeActions: readonly ChangeAction[]
}

export const operatorReportRoutes = [
  defineOperatorRoute({
    method: 'get',
    path: '/usage',
    summary: 'Calls and credits of all accounts, the most credits first.',
    response: schemaRef('Usage'),
    query: {
      type: 'object',
      properties: {
        by: { type: 'string', enum: ['account', ...dimensions], default: 'account', description: 'What calls are counted by.' },
        hours: { type: 'integer', minimum: 1, maximum: 31 * hoursPerDay, default: hoursPerDay, description: 'How far back, up to now.' },
        offset: { type: 'integer', minimum: 0, default: 0, description: 'How many groups to skip.' },
        limit: { type: 'integer', minimum: 1, maximum: 1_000, default: 100, description: 'Most groups of the response.' },
      },
    },
    async handle({ query: { by, hours, offset, limit } }, { store, queries, clock }): Promise<TrafficReport> {
      const to = Math.floor(clock.now() / hourMs) + 1
      const totals = await queries.totals({ from: to - hours, to, by })
      const page = totals.slice(offset, offset + limit)
      const nameOf = async (id: string) => (await store.account(id))?.name ?? ''
      const groups = by === 'account' ? await Promise.all(page.map(async group => ({ ...group, account: await nameOf(group.name) }))) : page
      return { by, from: isoTime((to - hours) * hourMs), groupCount: totals.length, groups }
    },
  }),
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
      return { by: authentication, version, dashboard: dashboardUrl() ?? null, changeActions }
    },
  }),
]
