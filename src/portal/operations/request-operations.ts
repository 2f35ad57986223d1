import { failedOutcomes } from '../../services/traffic/figures.ts'
import type { FoundRequest } from '../../store/request-log-store.ts'
import type { AccountRow, KeyRow } from '../../store/store.ts'
import { hourMs, hoursPerDay, isoTime } from '../../util/dates.ts'
import { filterQuery } from '../queries/usage-dimensions.ts'
import { accountRefSchema, flag, listOf, number, object, schemaRef, text, textOrNull, timeOrNull } from '../response-schemas.ts'
import type { JsonOf } from '../response-schemas.ts'
import { operatorAdviceOf } from '../outcome-advice.ts'
import { parseTime } from '../parse-time.ts'
import { keepsParams, requestJson, requestProperties } from '../request-json.ts'
import { accountId, findAccount } from './account-operations.ts'
import { defineOperation } from './operation.ts'
import type { OperationServices } from './operation.ts'

const { params: _params, paramsOmitted: _omitted, meantMethod: _meant, isCut: _isCut, key: _key, ...shownProperties } = requestProperties

/** What the operation returns, by the name in the OpenAPI document. */
const requestList = {
  isLogged: { ...flag, description: 'Whether `requestLog`, and the account, have requests logged.' },
  retentionHours: number,
  requests: listOf(
    object({
      account: accountRefSchema,
      key: object({
        id: text,
        name: { ...textOrNull, description: 'Null where the key has none, or no longer exists.' },
        hint: { ...textOrNull, description: 'The last characters of the key.' },
      }),
      ...shownProperties,
      byGateway: { ...flag, description: 'It failed by the fault of nodes or of the gateway, rather than of the caller.' },
    }),
  ),
} as const

export const requestSchemas = {
  RequestList: object(requestList),
  LatestRequests: object({
    ...requestList,
    searchedFrom: {
      ...timeOrNull,
      description:
        'Where fewer than `limit` were found among about 20,000 that were looked at: since when those were made; null where all were.',
    },
  }),
  AccountRequests: object({ ...requestList, next: { ...textOrNull, description: '`after` of the next request; null at the end.' } }),
} as const

export type RequestListJson = JsonOf<typeof requestSchemas.RequestList>

export type LatestRequestsJson = JsonOf<typeof requestSchemas.LatestRequests>

export type AccountRequestsJson = JsonOf<typeof requestSchemas.AccountRequests>

/** An operator sees what the account has had logged, but for the parameters: those are the account's. */
const operatorRequestJson = (found: FoundRequest, account: AccountRow, key: KeyRow | undefined, { requestLog }: OperationServices) => {
  const {
    params: _params,
    paramsOmitted: _omitted,
    meantMethod: _meant,
    isCut: _isCut,
    key: keyId,
    ...shown
  } = requestJson(found, keepsParams(requestLog, account))
  return {
    account: { id: account.id, name: account.name },
    key: { id: keyId, name: key?.name ?? null, hint: key?.hint ?? null },
    ...shown,
    byGateway: failedOutcomes.has(found.outcome),
    advice: shown.advice === null ? null : operatorAdviceOf(found.outcome, found.category),
  }
}

export type OperatorRequestJson = ReturnType<typeof operatorRequestJson>

/** Of each account once: most requests with one id are of one account. */
const describeRequests = async (found: readonly FoundRequest[], services: OperationServices): Promise<readonly OperatorRequestJson[]> => {
  const ids = [...new Set(found.map(({ account }) => account))]
  const accounts = new Map(await Promise.all(ids.map(async id => [id, await services.store.account(id)] as const)))
  const keys = new Map((await Promise.all(ids.map(id => services.store.keys(id)))).flat().map(key => [key.id, key]))
  return found.flatMap(request => {
    const account = accounts.get(request.account)
    // What an account no longer wants logged is removed, but a gateway may just have written some of it.
    if (account === undefined || account.requestLog === 'off') return []
    return [operatorRequestJson(request, account, keys.get(request.key), services)]
  })
}

const requestTable = (requests: readonly OperatorRequestJson[]) => ({
  columns: ['TIME', 'ACCOUNT', 'KEY', 'NETWORK', 'METHOD', 'OUTCOME', 'CODE', 'MS', 'NODE', 'REQUEST ID'],
  rows: requests.map(({ time, account, key, network, method, outcome, code, durationMs, upstream, requestId }) => [
    ...[time.slice(0, 19), account.name, `…${key.hint ?? key.id}`, network, method, outcome, String(code ?? '-')],
    ...[durationMs.toFixed(1), upstream ?? '-', requestId],
  ]),
})

export const requestOperations = [
  defineOperation({
    name: 'requests list',
    method: 'get',
    path: '/accounts/{id}/requests',
    operationId: 'listAccountRequests',
    summary:
      'The last failed and slow requests of an account, and a sample of the others, the newest first; why each failed. Without parameters.',
    input: {
      type: 'object',
      properties: {
        id: accountId,
        ...filterQuery,
        outcome: { ...filterQuery.outcome, description: 'Only requests with this outcome, or `failed` ones, or `slow` ones.' },
        after: { type: 'string', description: '`next` of the response before.' },
        limit: { type: 'integer', minimum: 1, maximum: 1_000, default: 50, description: 'Most requests of the response.' },
      },
      required: ['id'],
    },
    output: schemaRef('AccountRequests'),
    async run({ id, after, limit, ...filter }, services): Promise<AccountRequestsJson> {
      const account = await findAccount(services, id)
      const { enabled, retention } = services.requestLog
      const isLogged = enabled && account.requestLog !== 'off'
      const since = services.clock.now() - retention
      const asked = { ...filter, account: account.id, search: '', searchesMessages: false, after, limit, since, until: undefined }
      const { requests, next = null } = isLogged ? await services.queries.requests(asked) : { requests: [] }
      const found = requests.map(request => ({ ...request, account: account.id }))
      return { isLogged, retentionHours: retention / hourMs, requests: await describeRequests(found, services), next }
    },
    command: {
      positionals: { id: 'ACCOUNT' },
      flags: {
        method: { placeholder: 'METHOD' },
        network: { placeholder: 'NAME' },
        key: { placeholder: 'ID' },
        outcome: { placeholder: 'OUTCOME' },
      },
      fixed: { after: undefined },
      failure: ({ isLogged }) =>
        isLogged ? undefined : 'no requests are logged: by `requestLog` of gateway.yaml, or the account has turned that off',
      text: ({ requests }) => (requests.length === 0 ? ['no logged request is like this'] : [requestTable(requests)]),
    },
  }),
  defineOperation({
    name: 'requests latest',
    method: 'get',
    path: '/requests',
    operationId: 'listLatestRequests',
    summary:
      'The latest requests that were logged, of all accounts; of a time, an account, a network, a node, a method, an outcome or an error code, where that is named. Without parameters.',
    input: {
      type: 'object',
      properties: {
        account: {
          type: 'string',
          description: 'Name or id. Without it, about 20,000 requests are looked at, whatever else is asked for.',
        },
        network: filterQuery.network,
        node: { type: 'string', description: 'Only calls that the node of this name has answered, or failed last.' },
        method: filterQuery.method,
        code: { type: 'integer', description: 'Only calls with this error code, such as -32602.' },
        hours: { type: 'integer', minimum: 1, maximum: 31 * hoursPerDay, description: 'How many hours back, up to now.' },
        from: { type: 'string', maxLength: 40, description: 'The beginning, such as 2026-01-15T12:00:00Z; it replaces `hours`.' },
        to: { type: 'string', maxLength: 40, description: 'The end, such as 2026-01-15T12:15:00Z; now if absent.' },
        outcome: { ...filterQuery.outcome, description: 'Only requests with this outcome, or `failed` ones, or `slow` ones.' },
        limit: { type: 'integer', minimum: 1, maximum: 200, default: 50, description: 'Most requests of the response.' },
      },
    },
    output: schemaRef('LatestRequests'),
    check({ from, to }) {
      for (const [name, time] of Object.entries({ from, to })) if (time !== undefined) parseTime(name, time)
    },
    async run({ account: named, hours, from, to, ...filter }, services): Promise<LatestRequestsJson> {
      const { enabled: isLogged, retention } = services.requestLog
      const account = named === undefined ? undefined : (await findAccount(services, named)).id
      const now = services.clock.now()
      const wantedFrom = from !== undefined ? parseTime('from', from) : hours !== undefined ? now - hours * hourMs : -Infinity
      const [since, until] = [Math.max(now - retention, wantedFrom), to === undefined ? undefined : parseTime('to', to)]
      const { limit } = filter
      const asked = { ...filter, account, key: undefined, since, until }
      const { requests, readFrom } = isLogged ? await services.queries.latestRequests(asked) : { requests: [], readFrom: since }
      return {
        isLogged,
        retentionHours: retention / hourMs,
        requests: await describeRequests(requests, services),
        searchedFrom: requests.length < limit && readFrom > since ? isoTime(readFrom) : null,
      }
    },
    command: {
      flags: {
        account: { placeholder: 'ACCOUNT' },
        network: { placeholder: 'NAME' },
        node: { placeholder: 'NAME' },
        method: { placeholder: 'METHOD' },
        code: { placeholder: 'CODE' },
        hours: { placeholder: 'N' },
        from: { placeholder: 'TIME' },
        to: { placeholder: 'TIME' },
        outcome: { placeholder: 'OUTCOME' },
        limit: { placeholder: 'N' },
      },
      failure: ({ isLogged }) => (isLogged ? undefined : 'no requests are logged: gateway.yaml has `requestLog.enabled: false`'),
      text: ({ requests, searchedFrom }) => [
        requests.length === 0 ? 'no logged request is like this' : requestTable(requests),
        ...(searchedFrom === null ? [] : [`requests before ${searchedFrom.slice(0, 19)} were not looked at; with --account they are`]),
      ],
    },
  }),
  defineOperation({
    name: 'requests show',
    method: 'get',
    path: '/requests/{id}',
    summary:
      'The requests with this id, of any account, as the log of requests has them: whose they are, and why they failed. Without parameters.',
    input: {
      type: 'object',
      properties: { id: { type: 'string', description: 'As the header X-Request-Id of the response has it.' } },
      required: ['id'],
    },
    output: schemaRef('RequestList'),
    async run({ id }, services): Promise<RequestListJson> {
      const { enabled: isLogged, retention } = services.requestLog
      const since = services.clock.now() - retention
      const found = isLogged ? await services.queries.requestsById({ requestId: id.trim(), since }) : []
      return { isLogged, retentionHours: retention / hourMs, requests: await describeRequests(found, services) }
    },
    command: {
      positionals: { id: 'ID' },
      failure: ({ isLogged, retentionHours, requests }) =>
        !isLogged
          ? 'no requests are logged: gateway.yaml has `requestLog.enabled: false`'
          : requests.length === 0
            ? `no logged request has this id: failed and slow requests are kept for ${retentionHours} h, and a sample of the others, unless their account has turned that off`
            : undefined,
      text: ({ requests }) =>
        requests.flatMap(({ account, key, code, message, advice, byGateway, cache, attempts, upstream, ...rest }, i) => [
          ...(i === 0 ? [] : ['']),
          {
            fields: {
              account: account.name,
              key: [key.id, key.name, key.hint && `…${key.hint}`].filter(Boolean).join(' '),
              ...rest,
              isSlow: rest.isSlow ? 'yes' : 'no',
              code: code ?? '-',
              message: message ?? '-',
              advice: advice ?? '-',
              byGateway: byGateway ? 'yes' : 'no',
              cache: cache ?? '-',
              attempts: attempts ?? '-',
              node: upstream ?? '-',
            },
          },
        ]),
    },
  }),
]
