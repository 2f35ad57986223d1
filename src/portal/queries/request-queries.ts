import type { LatestRequests, RequestLogStore, StoredRequest } from '../../store/request-log-store.ts'
import { successOutcome } from '../../store/usage-store.ts'
import { getOrCreate } from '../../util/memoize.ts'
import { failedOutcome } from './usage-dimensions.ts'
import type { Dimension, UsageFilter } from './usage-dimensions.ts'

/** In place of an outcome: calls that took long, whatever they came to. */
export const slowOutcome = 'slow'

/** The logged requests of an account, of some time. */
interface LoggedRange extends UsageFilter {
  readonly account: string
  /** Milliseconds since 1970: requests from then on. */
  readonly since: number
  /** Requests before then; undefined: up to now. */
  readonly until: number | undefined
}

export interface RequestPageOptions extends LoggedRange {
  /** A part of the request id, or of the message. */
  readonly search: string
  /** Whether `search` is looked for in messages: where they are not to be shown, it is not. */
  readonly searchesMessages: boolean
  /** `next` of the page before; undefined: from the newest on. */
  readonly after: string | undefined
  readonly limit: number
}

export interface RequestPage {
  /** The newest first. */
  readonly requests: readonly StoredRequest[]
  /** How many there are that were asked for, and how many of them are newer than `requests`. */
  readonly requestCount: number
  readonly offset: number
  /** Undefined at the end. */
  readonly next: string | undefined
  /** How many requests there are in all, and of each outcome, whatever `outcome` asks for. */
  readonly outcomes: readonly (readonly [outcome: string, requests: number])[]
  /** What all logged requests of the time have, the most frequent first, whatever else is asked for. */
  readonly methods: readonly string[]
  readonly networks: readonly string[]
  readonly keys: readonly string[]
}

export interface LoggedCount {
  readonly name: string
  readonly requests: number
}

/** What callers were told about a method that failed. */
interface FailureMessage {
  readonly outcome: string
  readonly message: string
  readonly method: string
  /** Logged ones. */
  readonly requests: number
  /** Where that was, and the ids of the keys, the most frequent first. */
  readonly networks: readonly LoggedCount[]
  readonly keys: readonly LoggedCount[]
  /** Of the last one, in ms since 1970. */
  readonly lastSeen: number
}

interface FailureMessageOptions extends LoggedRange {
  /** Messages of each outcome. */
  readonly limit: number
}

export interface FailureMessages {
  /** The most frequent first, of each outcome. */
  readonly messages: readonly FailureMessage[]
  /** Of each outcome, its logged requests, and how many messages they have, each counted by method. */
  readonly outcomes: readonly { readonly outcome: string; readonly requests: number; readonly messages: number }[]
}

export interface LatestRequestsQuery extends Omit<LoggedRange, 'account'> {
  /** By its id; undefined: of all of them. */
  readonly account: string | undefined
  /** The name of the one that has answered, or failed, last. */
  readonly node?: string | undefined
  /** Of the error. */
  readonly code?: number | undefined
  readonly limit: number
}

/** The newest of all accounts, or of one, that are asked for: of all, the store looks at a bounded number. */
export const readLatestRequests = async (
  store: Pick<RequestLogStore, 'requests' | 'latestRequests'>,
  { account, limit, node, code, ...filter }: LatestRequestsQuery,
): Promise<LatestRequests> => {
  const { since, until } = filter
  const isWanted = (request: StoredRequest): boolean =>
    isFound(request, { ...filter, search: '', searchesMessages: false }) &&
    hasOutcome(request, filter.outcome) &&
    (node === undefined || request.upstream === node) &&
    (code === undefined || request.code === code)
  if (account === undefined) return store.latestRequests({ since, until, limit, isWanted })
  const found = (await store.requests(account)).filter(request => isOfTime(request, filter) && isWanted(request))
  return { requests: found.slice(0, limit).map(request => ({ ...request, account })), readFrom: since }
}

/** Of the thousands that the log has of an account at most, those that are asked for. */
export const readRequests = async (store: Pick<RequestLogStore, 'requests'>, options: RequestPageOptions): Promise<RequestPage> => {
  const { account, outcome, after, limit } = options
  const logged = (await store.requests(account)).filter(request => isOfTime(request, options))
  const matching = logged.filter(request => isFound(request, options))
  const found = matching.filter(request => hasOutcome(request, outcome))
  const first = after === undefined ? 0 : found.findIndex(request => isAfter(request, after))
  const requests = first < 0 ? [] : found.slice(first, first + limit)
  const last = requests.at(-1)
  const hasMore = first >= 0 && first + limit < found.length
  return {
    requests,
    requestCount: found.length,
    offset: Math.max(0, first),
    next: hasMore && last ? cursorOf(last) : undefined,
    outcomes: countBy(matching, 'outcome'),
    methods: valuesOf(logged, 'method'),
    networks: valuesOf(logged, 'network'),
    keys: valuesOf(logged, 'key'),
  }
}

export const readFailureMessages = async (
  store: Pick<RequestLogStore, 'requests'>,
  options: FailureMessageOptions,
): Promise<FailureMessages> => {
  const requestsOf = new Map<string, StoredRequest[]>()
  // The newest first.
  for (const request of await store.requests(options.account)) {
    const { outcome, message, method } = request
    if (message === undefined || !isOfTime(request, options) || !isFound(request, { ...options, search: '', searchesMessages: false }))
      continue
    if (!hasOutcome(request, options.outcome)) continue
    getOrCreate(requestsOf, [outcome, method, message].join('\n'), () => []).push(request)
  }
  const lastSeen = ([newest]: readonly StoredRequest[]): number => newest?.time ?? 0
  const frequent = [...requestsOf.values()].sort((a, b) => b.length - a.length || lastSeen(b) - lastSeen(a))
  const ofOutcome = new Map<string, (readonly StoredRequest[])[]>()
  for (const each of frequent) getOrCreate(ofOutcome, each[0]?.outcome ?? '', () => []).push(each)
  return {
    messages: [...ofOutcome.values()].flatMap(each => each.slice(0, options.limit).map(toMessage)),
    outcomes: Array.from(ofOutcome, ([outcome, each]) => ({
      outcome,
      messages: each.length,
      requests: each.reduce((sum, { length }) => sum + length, 0),
    })),
  }
}

/** Of requests with the same one, the newest first. */
const toMessage = (requests: readonly StoredRequest[]): FailureMessage => {
  const [{ outcome, message = '', method, time: lastSeen }] = requests as readonly [StoredRequest] // there is no group without one
  const countsOf = (member: Dimension) => countBy(requests, member).map(([name, count]) => ({ name, requests: count }))
  return { outcome, message, method, requests: requests.length, networks: countsOf('network'), keys: countsOf('key'), lastSeen }
}

const isOfTime = ({ time }: StoredRequest, { since, until = Infinity }: Pick<LoggedRange, 'since' | 'until'>): boolean =>
  time >= since && time < until

const isFound = (
  request: StoredRequest,
  {
    method,
    network,
    key,
    search,
    searchesMessages,
  }: Pick<RequestPageOptions, 'method' | 'network' | 'key' | 'search' | 'searchesMessages'>,
): boolean =>
  (method === undefined || request.method === method) &&
  (network === undefined || request.network === network) &&
  (key === undefined || request.key === key) &&
  (request.requestId.includes(search) || (searchesMessages && request.message?.toLowerCase().includes(search.toLowerCase()) === true))

const hasOutcome = ({ outcome, isSlow }: StoredRequest, asked: string | undefined): boolean =>
  asked === undefined ||
  (asked === failedOutcome ? outcome !== successOutcome : asked === slowOutcome ? isSlow === true : outcome === asked)

/** Requests that come meanwhile shift no page. */
const cursorOf = ({ time, id }: StoredRequest): string => `${time}.${id}`

const isAfter = ({ time, id }: StoredRequest, cursor: string): boolean => {
  const [cursorTime = 0, cursorId = ''] = [Number.parseInt(cursor, 10), cursor.slice(cursor.indexOf('.') + 1)]
  return time < cursorTime || (time === cursorTime && id < cursorId)
}

const countBy = (requests: readonly StoredRequest[], member: Dimension): readonly (readonly [value: string, requests: number])[] => {
  const counts = new Map<string, number>()
  for (const { [member]: value } of requests) counts.set(value, (counts.get(value) ?? 0) + 1)
  return [...counts].sort(([, a], [, b]) => b - a)
}

const maxValues = 200

const valuesOf = (requests: readonly StoredRequest[], member: Dimension): readonly string[] =>
  countBy(requests, member)
    .slice(0, maxValues)
    .map(([value]) => value)
