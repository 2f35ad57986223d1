import type { RequestLogStore, StoredRequest } from '../../store/request-log-store.ts'
import { successOutcome } from '../../store/usage-store.ts'
import { failedOutcome } from './usage-dimensions.ts'
import type { UsageFilter } from './usage-dimensions.ts'

/** In place of an outcome: calls that took long, whatever they came to. */
const slowOutcome = 'slow'

export interface RequestPageOptions extends UsageFilter {
  readonly account: string
  /** A part of the request id. */
  readonly search: string
  /** Milliseconds since 1970: requests from then on. */
  readonly since: number
  /** `next` of the page before; undefined: from the newest on. */
  readonly after: string | undefined
  readonly limit: number
}

export interface RequestPage {
  /** The newest first. */
  readonly requests: readonly StoredRequest[]
  /** Undefined at the end. */
  readonly next: string | undefined
  /** How many requests there are in all, and of each outcome, whatever `outcome` asks for. */
  readonly outcomes: readonly (readonly [outcome: string, requests: number])[]
}

/** Of the thousands that the log has of an account at most, those that are asked for. */
export const readRequests = async (store: Pick<RequestLogStore, 'requests'>, options: RequestPageOptions): Promise<RequestPage> => {
  const { account, outcome, after, limit } = options
  const matching = (await store.requests(account)).filter(request => isFound(request, options))
  const found = matching.filter(request => hasOutcome(request, outcome))
  const first = after === undefined ? 0 : found.findIndex(request => isAfter(request, after))
  const requests = first < 0 ? [] : found.slice(first, first + limit)
  const last = requests.at(-1)
  const hasMore = first >= 0 && first + limit < found.length
  return { requests, next: hasMore && last ? cursorOf(last) : undefined, outcomes: countOutcomes(matching) }
}

const isFound = (request: StoredRequest, { method, network, key, search, since }: RequestPageOptions): boolean =>
  request.time >= since &&
  (method === undefined || request.method === method) &&
  (network === undefined || request.network === network) &&
  (key === undefined || request.key === key) &&
  request.requestId.includes(search)

const hasOutcome = ({ outcome, isSlow }: StoredRequest, asked: string | undefined): boolean =>
  asked === undefined ||
  (asked === failedOutcome ? outcome !== successOutcome : asked === slowOutcome ? isSlow === true : outcome === asked)

/** Requests that come meanwhile shift no page. */
const cursorOf = ({ time, id }: StoredRequest): string => `${time}.${id}`

const isAfter = ({ time, id }: StoredRequest, cursor: string): boolean => {
  const [cursorTime = 0, cursorId = ''] = [Number.parseInt(cursor, 10), cursor.slice(cursor.indexOf('.') + 1)]
  return time < cursorTime || (time === cursorTime && id < cursorId)
}

const countOutcomes = (requests: readonly StoredRequest[]): RequestPage['outcomes'] => {
  const counts = new Map<string, number>()
  for (const { outcome } of requests) counts.set(outcome, (counts.get(outcome) ?? 0) + 1)
  return [...counts].sort(([, a], [, b]) => b - a)
}
