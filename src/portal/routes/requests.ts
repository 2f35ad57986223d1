import type { RequestLogConfig } from '../../services/request-log.ts'
import type { AccountRow } from '../../store/store.ts'
import { hourMs } from '../../util/dates.ts'
import { schemaRef } from '../openapi.ts'
import { accountOf, accountsAs } from '../portal-services.ts'
import type { PortalServices } from '../portal-services.ts'
import { keepsParams, requestJson } from '../request-json.ts'
import type { RequestJson } from '../request-json.ts'
import { defineRoute } from '../route.ts'
import { filterQuery } from '../queries/usage-dimensions.ts'
import { timeQuery, timesOf } from './usage.ts'

/** What an account has logged of its requests. */
const settings = ['on', 'withoutParams', 'off'] as const

type Setting = (typeof settings)[number]

const logJson = ({ enabled, params, slow, retention }: RequestLogConfig, { requestLog }: AccountRow) => ({
  setting: (requestLog ?? 'on') satisfies Setting as Setting,
  isOffered: enabled,
  offersParams: params,
  slowMs: slow,
  retentionHours: retention / hourMs,
})

export type RequestLogJson = ReturnType<typeof logJson>

export interface RequestPageJson {
  readonly log: RequestLogJson
  readonly requests: readonly RequestJson[]
  /** `after` of the next request; null at the end. */
  readonly next: string | null
  readonly outcomes: readonly { readonly outcome: string; readonly requests: number }[]
  /** Of all requests of the time, whatever else is asked for. */
  readonly methods: readonly string[]
  readonly networks: readonly string[]
  readonly keys: readonly string[]
}

const noRequests = { requests: [], next: null, outcomes: [], methods: [], networks: [], keys: [] } as const

const readPage = async (services: PortalServices, account: AccountRow, query: PageQuery): Promise<RequestPageJson> => {
  const { requestLog, queries, clock } = services
  const log = logJson(requestLog, account)
  if (!log.isOffered || log.setting === 'off') return { log, ...noRequests }
  const since = Math.max(query.since ?? 0, clock.now() - requestLog.retention)
  const { requests, next = null, outcomes, ...values } = await queries.requests({ ...query, account: account.id, since })
  const isWhole = keepsParams(requestLog, account)
  return {
    log,
    ...values,
    requests: requests.map(request => requestJson(request, isWhole)),
    next,
    outcomes: outcomes.map(([outcome, count]) => ({ outcome, requests: count })),
  }
}

type PageQuery = Omit<Parameters<PortalServices['queries']['requests']>[0], 'account' | 'since'> & { readonly since: number | undefined }

export const requestRoutes = [
  defineRoute({
    method: 'get',
    path: '/requests',
    summary: 'The last failed and slow requests of the account, and a sample of the others, the newest first; why each failed.',
    role: 'viewer',
    query: {
      type: 'object',
      properties: {
        ...timeQuery,
        ...filterQuery,
        outcome: { ...filterQuery.outcome, description: 'Only requests with this outcome, or `failed` ones, or `slow` ones.' },
        search: { type: 'string', default: '', description: 'A part of the request id.' },
        after: { type: 'string', description: '`next` of the response before.' },
        limit: { type: 'integer', minimum: 1, maximum: 1_000, default: 50, description: 'Most requests of the response.' },
      },
    },
    response: schemaRef('RequestPage'),
    async handle({ person, query }, services): Promise<RequestPageJson> {
      const { method, network, key, outcome, search, after, limit } = query
      const times = timesOf(query, services.clock.now())
      const asked = { ...times, method, network, key, outcome, search, after, limit }
      return readPage(services, await accountOf(services, person.account), asked)
    },
  }),
  defineRoute({
    method: 'patch',
    path: '/requests',
    summary: 'Sets what is logged of requests. What was logged before is removed when less is to be logged.',
    role: 'owner',
    body: {
      type: 'object',
      properties: {
        setting: {
          type: 'string',
          enum: settings,
          description: 'All, all but the parameters of calls and the messages of errors, or nothing.',
        },
      },
      required: ['setting'],
    },
    response: schemaRef('RequestLog'),
    async handle({ person, body: { setting } }, services): Promise<RequestLogJson> {
      const known = await accountOf(services, person.account)
      const changed = await accountsAs(services, person).changeAccount(known.id, { requestLog: setting === 'on' ? null : setting })
      // Processes learn of it within a second, and write within another what they have logged by then.
      await services.store.limitRequests(known.id, setting === 'on' ? undefined : setting)
      return logJson(services.requestLog, changed ?? known)
    },
  }),
]
