import type { RequestLogConfig } from '../../services/request-log.ts'
import type { AccountRow } from '../../store/store.ts'
import { hourMs, isoTime } from '../../util/dates.ts'
import { oneAtATime } from '../concurrent-changes.ts'
import { count, countOrNull, listOf, number, object, schemaRef, text, textOrNull } from '../response-schemas.ts'
import type { JsonOf } from '../response-schemas.ts'
import { accountOf, accountsAs } from '../portal-services.ts'
import type { PortalServices } from '../portal-services.ts'
import { slowOutcome } from '../queries/request-queries.ts'
import type { RequestPageOptions } from '../queries/request-queries.ts'
import { keepsParams, requestJson, requestProperties } from '../request-json.ts'
import { defineRoute } from '../route.ts'
import { filterQuery } from '../queries/usage-dimensions.ts'
import { filterOf, pointsOf, timeQuery, timesOf } from './usage.ts'

/** What an account has logged of its requests. */
const settings = ['on', 'withoutParams', 'off'] as const

const requestLog = {
  setting: { type: 'string', enum: settings },
  isOffered: { type: 'boolean', description: 'Whether the operator has requests logged.' },
  offersParams: { type: 'boolean', description: 'Whether the operator has parameters stored.' },
  slowMs: { ...number, description: 'A call that takes so long is slow.' },
  retentionHours: number,
} as const

/** What the routes return, by the name in the OpenAPI document. */
export const requestSchemas = {
  RequestLog: object(requestLog),
  RequestPage: object({
    log: object(requestLog),
    requests: listOf(object(requestProperties)),
    requestCount: { ...count, description: 'All requests that were asked for.' },
    offset: { ...count, description: 'So many of them are newer than those of the response.' },
    calls: {
      ...countOrNull,
      description: 'All calls of the time that the filters include, logged or not; null for `slow` ones, and with `search`.',
    },
    next: { ...textOrNull, description: '`after` of the next request; null at the end.' },
    outcomes: listOf(object({ outcome: text, requests: count })),
    methods: { ...listOf(text), description: 'Of all logged requests of the time, the most frequent first.' },
    networks: listOf(text),
    keys: { ...listOf(text), description: 'Ids.' },
  }),
} as const

export type RequestLogJson = JsonOf<typeof requestSchemas.RequestLog>

export type RequestPageJson = JsonOf<typeof requestSchemas.RequestPage>

const logJson = ({ enabled, params, slow, retention }: RequestLogConfig, { requestLog }: AccountRow): RequestLogJson => ({
  setting: requestLog ?? 'on',
  isOffered: enabled,
  offersParams: params,
  slowMs: slow,
  retentionHours: retention / hourMs,
})

const noRequests = {
  requests: [],
  requestCount: 0,
  offset: 0,
  calls: null,
  next: null,
  outcomes: [],
  methods: [],
  networks: [],
  keys: [],
} as const

const readPage = async (
  services: PortalServices,
  account: AccountRow,
  { range, from, to, ...query }: PageQuery,
): Promise<RequestPageJson> => {
  const { requestLog, queries, clock } = services
  const log = logJson(requestLog, account)
  if (!log.isOffered || log.setting === 'off') return { log, ...noRequests }
  const now = clock.now()
  const keptSince = now - requestLog.retention
  const since = Math.max(query.since ?? 0, keptSince)
  const isWhole = keepsParams(requestLog, account)
  const asked = { ...query, account: account.id, since }
  const [{ requests, next = null, outcomes, ...values }, calls] = await Promise.all([
    queries.requests({ ...asked, searchesMessages: isWhole }),
    countCalls(
      services,
      { ...asked, range: since > keptSince ? range : undefined, ...(from !== undefined && { from: isoTime(since), to }) },
      now,
    ),
  ])
  return {
    log,
    ...values,
    calls,
    requests: requests.map(request => requestJson(request, isWhole)),
    next,
    outcomes: outcomes.map(([outcome, count]) => ({ outcome, requests: count })),
  }
}

/** The time that is asked for, as a range and in ms since 1970. */
type PageQuery = Omit<RequestPageOptions, 'account' | 'since' | 'searchesMessages'> &
  Parameters<typeof pointsOf>[0] & { readonly since: number | undefined }

/** Those of the points of the time, as the page Usage counts them; of what the log keeps, unless another time is asked for. */
const countCalls = async (
  { queries, requestLog }: PortalServices,
  query: Omit<PageQuery, 'since'> & { readonly account: string; readonly since: number },
  now: number,
): Promise<number | null> => {
  const { account, outcome, search, since, until = Infinity } = query
  if (outcome === slowOutcome || search !== '') return null
  if (until <= since) return 0
  const { period, from, to } = pointsOf(query, now, requestLog.retention)
  const { outcomes } = await queries.outcomes({ account, period, from, to, filter: filterOf(query) })
  return outcomes.reduce((sum, { calls }) => sum + calls, 0)
}

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
        search: { type: 'string', default: '', description: 'A part of the request id, or of the message of the error.' },
        after: { type: 'string', description: '`next` of the response before.' },
        limit: { type: 'integer', minimum: 1, maximum: 1_000, default: 50, description: 'Most requests of the response.' },
      },
    },
    response: schemaRef('RequestPage'),
    async handle({ person, query }, services): Promise<RequestPageJson> {
      const { search, limit, after, range, from, to } = query
      const asked = { search, limit, after, range, from, to, ...timesOf(query, services.clock.now()), ...filterOf(query) }
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
      // Of several owners at once, the last one decides what the account says and what the store takes.
      return oneAtATime(services, `request-log ${known.id}`, async () => {
        const changed = await accountsAs(services, person).changeAccount(known.id, { requestLog: setting === 'on' ? null : setting })
        // Processes learn of it within a second, and write within another what they have logged by then.
        await services.store.limitRequests(known.id, setting === 'on' ? undefined : setting)
        return logJson(services.requestLog, changed ?? known)
      })
    },
  }),
]
