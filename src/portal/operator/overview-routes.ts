import type { NetworkCounters } from '../../services/traffic/counters.ts'
import { callFigures, nodeFigures } from '../../services/traffic/figures.ts'
import { storeOutages } from '../../services/ledger/store-outage.ts'
import { historyRanges } from '../../services/traffic/history.ts'
import type { HistoryRange } from '../../services/traffic/history.ts'
import { dayMs, hourMs, isoTime } from '../../util/dates.ts'
import { deliveryChannels, deliveryStates, listOperatorDeliveries, problemAlertTypes } from '../alerts/delivery-records.ts'
import type { Delivery } from '../alerts/delivery-records.ts'
import { summarizeAlert } from '../alerts/message-format.ts'
import { alertJson, alertShape } from '../alerts/manage-alerts.ts'
import {
  accountRefSchema,
  count,
  countOrNull,
  flag,
  listOf,
  number,
  numberOrNull,
  object,
  schemaRef,
  text,
  textOrNull,
  time,
} from '../response-schemas.ts'
import { readNodes } from '../operations/node-operations.ts'
import { capacitySchema, readCapacity } from './capacity.ts'
import { readEarlier, startOf, undefinedWithoutStore, withEarlier } from './earlier-activity.ts'
import { withStoreFailure } from './gateway-health.ts'
import type { OperatorServices } from './operator-route.ts'
import { defineOperatorRoute } from './operator-route.ts'
import { describeProblems } from './problems.ts'
import type { CurrentProblemsJson, NodesAndProblemsJson } from './problems.ts'

type OrNull<T> = { readonly [Name in keyof T]: Exclude<T[Name], undefined> | (undefined extends T[Name] ? null : never) }

const latency = { p50Ms: numberOrNull, p95Ms: numberOrNull, p99Ms: numberOrNull }
const calls = {
  calls: { ...number, description: 'In the interval.' },
  failedCalls: { ...number, description: 'By the fault of nodes or of the gateway.' },
  credits: number,
  cacheHits: { ...numberOrNull, description: 'The share of the look-ups that the cache has answered, from 0 to 1.' },
  ...latency,
}

const series = (names: readonly string[]) => Object.fromEntries(names.map(name => [name, listOf(numberOrNull)]))
const callSeries = series(['callsPerSecond', 'failedPerSecond', 'creditsPerSecond', 'cacheHits', 'p50Ms', 'p95Ms'])

const deliveryProperties = {
  channel: { type: 'string', enum: deliveryChannels },
  state: { type: 'string', enum: deliveryStates },
  created: time,
  lastStatus: textOrNull,
}

/** What the routes return, by the name in the OpenAPI document. */
export const overviewSchemas = {
  Overview: object({
    seconds: { ...number, description: 'How long the interval of the counts and durations is, up to now: a minute, or since the start.' },
    total: object(calls),
    networks: listOf(
      object({
        name: text,
        ...calls,
        outage: {
          oneOf: [object({ since: time, calls: number, failedCalls: number }), { type: 'null' }],
          description:
            'While it has no usable node: the calls since this gateway has noticed that, within 5 s; with those of up to 15 s before, if all of them failed too.',
        },
        upstreams: listOf(
          object({
            name: text,
            requests: { ...number, description: 'Attempts in the interval.' },
            share: { ...numberOrNull, description: 'Of the attempts of its network, from 0 to 1.' },
            failures: number,
            errors: {
              ...listOf(object({ error: text, failures: number })),
              description: 'What the attempts have failed with, as `Node` has it; the most frequent first.',
            },
            ...latency,
          }),
        ),
      }),
    ),
    gateway: object({
      store: object({
        usable: flag,
        outage: {
          type: ['string', 'null'],
          enum: [...storeOutages, null],
          description: 'As the metric tollgate_store_unavailable has it.',
        },
        reason: textOrNull,
      }),
      storeErrors: { ...count, description: 'Requests to the store that failed in the interval.' },
      started: time,
      version: text,
      workers: object({ ready: countOrNull, missing: countOrNull }),
      cpu: { ...number, description: 'Seconds of CPU a second, of all processes.' },
      residentBytes: countOrNull,
      inFlightBytes: countOrNull,
      inFlightMaxBytes: countOrNull,
      connections: countOrNull,
      maxConnections: countOrNull,
      websockets: countOrNull,
      openFiles: countOrNull,
      maxFiles: countOrNull,
      eventLoopLagMs: numberOrNull,
    }),
  }),
  Activity: object({
    times: { ...listOf(time), description: 'The ends of the intervals; each list below has a figure for each of them, or null.' },
    lastIsRunning: { ...flag, description: 'The last interval is not over yet: its figures are those up to now.' },
    started: { ...time, description: 'When this gateway was.' },
    earlierPoints: {
      ...count,
      description:
        'So many of the first points are from before the start of this gateway: calls, latencies and credits of all gateways on the store, from the usage of accounts, every 5 min of an hour, or hour of a day. The last one is empty.',
    },
    calls: object(callSeries),
    nodes: listOf(
      object({
        name: text,
        ...series(['requestsPerSecond', 'failuresPerSecond', 'p50Ms', 'p95Ms']),
        errors: listOf(object({ error: text, ...series(['failuresPerSecond']) })),
      }),
    ),
    gateway: object(series(['cpu', 'residentBytes'])),
  }),
  Capacity: capacitySchema,
  NodeFailures: object({
    since: { ...time, description: 'The beginning of the range, or the start of this gateway.' },
    nodes: {
      ...listOf(
        object({
          network: text,
          node: text,
          requests: { ...count, description: 'Attempts of that time.' },
          errors: {
            ...listOf(object({ error: text, failures: count })),
            description: 'What they have failed with, as `Node` has it; the most frequent first.',
          },
        }),
      ),
      description: 'The nodes of which attempts have failed.',
    },
  }),
  AccountOverview: object({
    accountCount: count,
    forwardedCount: { ...count, description: 'Active accounts whose plan has forwarding: in an outage, a partner may answer their calls.' },
    nearLimitCount: { ...count, description: 'Accounts that have used 75 % of the credits of today and more.' },
    nearLimit: {
      ...listOf(object({ id: text, name: text, plan: text, used: count, limit: count })),
      description: 'The greatest share first.',
    },
    hour: { ...time, description: 'The last whole hour.' },
    movers: {
      ...listOf(object({ id: text, name: text, before: count, calls: count })),
      description: 'Accounts whose calls of that hour differ most from those of the hour before.',
    },
    alerts: {
      ...listOf(
        object({
          account: accountRefSchema,
          ...alertShape,
          ...deliveryProperties,
        }),
      ),
      description: 'What accounts were told of their credits and calls in the last days, the newest first.',
    },
    operatorAlerts: {
      ...listOf(
        object({
          type: { type: 'string', enum: problemAlertTypes },
          text,
          receiver: { ...text, description: 'The address, or the name of the webhook.' },
          ...deliveryProperties,
        }),
      ),
      description: 'What operators were told in the last 24 hours, the newest first.',
    },
  }),
} as const

export const overviewRoutes = [
  defineOperatorRoute({
    method: 'get',
    path: '/overview',
    summary: 'The last minute of this gateway: calls, networks, nodes, processes and store.',
    response: schemaRef('Overview'),
    handle: (_request, services) => readOverview(services),
  }),
  defineOperatorRoute({
    method: 'get',
    path: '/overview/activity',
    summary:
      'The figures of this gateway over the last hour or day, and before its start those that usage has; of one network, those of its nodes, as far as it has run.',
    response: schemaRef('Activity'),
    query: {
      type: 'object',
      properties: {
        range: {
          type: 'string',
          enum: historyRanges,
          default: '1h',
          description: 'A point every 15 s of an hour, or every 5 min of a day.',
        },
        network: { type: 'string', description: 'All networks together if absent.' },
      },
    },
    handle: ({ query }, services) => readActivity(query, services),
  }),
  defineOperatorRoute({
    method: 'get',
    path: '/overview/capacity',
    summary:
      'What is used of what this gateway has, at the peak of the last day too; and when its calls reach what it carries, by the trend.',
    response: schemaRef('Capacity'),
    handle: (_request, services) => readCapacity(services),
  }),
  defineOperatorRoute({
    method: 'get',
    path: '/overview/failures',
    summary: 'What attempts at nodes have failed with in the last hour or day, as far as this gateway has run.',
    response: schemaRef('NodeFailures'),
    query: {
      type: 'object',
      properties: { range: { type: 'string', enum: historyRanges, default: '1h', description: 'Up to now.' } },
    },
    handle: ({ query: { range } }, services) => readFailures(range, services),
  }),
  defineOperatorRoute({
    method: 'get',
    path: '/overview/problems',
    summary: 'What an operator should look at now: of this gateway, of each network and of each node.',
    response: schemaRef('Problems'),
    async handle(_request, services): Promise<CurrentProblemsJson> {
      const { problems, nodesWithProblems } = await readNodesAndProblems(services)
      return { problems, nodesWithProblems }
    },
  }),
  defineOperatorRoute({
    method: 'get',
    path: '/overview/nodes',
    summary: 'All nodes, as `nodes list` has them, and what an operator should look at, of the same moment.',
    response: schemaRef('NodesAndProblems'),
    handle: (_request, services) => readNodesAndProblems(services),
  }),
  defineOperatorRoute({
    method: 'get',
    path: '/overview/accounts',
    summary: 'Accounts that are near their limit, those whose calls have changed most, and the alerts that were sent.',
    response: schemaRef('AccountOverview'),
    query: {
      type: 'object',
      properties: { limit: { type: 'integer', minimum: 1, maximum: 100, default: 10, description: 'Most items of each list.' } },
    },
    handle: ({ query: { limit } }, services) => readAccountOverview(limit, services),
  }),
]

const readOverview = async (services: OperatorServices) => {
  const { seconds, counters, networks, health, cpu } = await (await services.observer()).observe()
  return {
    seconds,
    total: toJson(callFigures(Object.values(counters.networks))),
    networks: networks.map(({ name, figures, outage }) => ({
      name,
      ...toJson(figures),
      outage: outage ?? null,
      upstreams: describeNodes(counters.networks[name]?.nodes ?? {}),
    })),
    gateway: {
      ...health,
      storeErrors: counters.storeErrors,
      cpu,
      version: services.version,
      started: isoTime(startOf(services.clock)),
    },
  }
}

export type OverviewJson = Awaited<ReturnType<typeof readOverview>>

const readActivity = async (
  { range, network }: { readonly range: HistoryRange; readonly network?: string },
  services: OperatorServices,
) => {
  const activity = await (await services.history()).activity(range, network)
  // Usage names no nodes.
  const earlier = network === undefined ? await readEarlier(range, services) : []
  const { times, isLastRunning: lastIsRunning, ...found } = withEarlier(activity, earlier)
  const started = isoTime(startOf(services.clock))
  return { times: times.map(isoTime), lastIsRunning, started, earlierPoints: earlier.length, ...found }
}

export type ActivityJson = Awaited<ReturnType<typeof readActivity>>

const readFailures = async (range: HistoryRange, services: OperatorServices) => {
  const { since, nodes } = await (await services.history()).attempts(range)
  const described = nodes.map(({ failures, ...node }) => ({ ...node, errors: describeErrors({ failures }) }))
  return { since: isoTime(since), nodes: described.filter(({ errors }) => errors.length > 0) }
}

export type NodeFailuresJson = Awaited<ReturnType<typeof readFailures>>

const readAccountOverview = async (limit: number, { queries, plans, store, config, clock }: OperatorServices) => {
  const forwardingPlans = Object.values(plans).flatMap(({ name, forwarding }) => (forwarding ? [name] : []))
  const planCredits = Object.fromEntries(Object.values(plans).map(({ name, dailyCredits }) => [name, dailyCredits]))
  const [{ nearLimit, movers, hour, alerts, ...counts }, deliveries] = await Promise.all([
    queries.accountOverview({ planCredits, forwardingPlans, limit }),
    listOperatorDeliveries(store),
  ])
  return {
    ...counts,
    nearLimit: nearLimit.map(({ row: { id, name, plan }, used, limit }) => ({ id, name, plan, used, limit })),
    hour: isoTime(hour * hourMs),
    movers: movers.map(({ row: { id, name }, before, calls }) => ({ id, name, before, calls })),
    alerts: alerts.map(({ account: id, accountName: name, message, ...delivery }) => ({
      ...{ account: { id, name }, ...alertJson(message) },
      ...describeDelivery(delivery),
    })),
    operatorAlerts: deliveries
      .filter(({ created }) => created > clock.now() - dayMs)
      .toSorted((a, b) => b.created - a.created)
      .slice(0, limit)
      .map(({ receiver = '', message, ...delivery }) => ({
        ...{ type: message.type, text: summarizeAlert(message, config.portal.brand), receiver },
        ...describeDelivery(delivery),
      })),
  }
}

export type AccountOverviewJson = Awaited<ReturnType<typeof readAccountOverview>>

const describeDelivery = ({ channel, state, created, lastStatus }: Pick<Delivery, 'channel' | 'state' | 'created' | 'lastStatus'>) => ({
  channel,
  state,
  created: isoTime(created),
  lastStatus: lastStatus ?? null,
})

const readNodesAndProblems = async (services: OperatorServices): Promise<NodesAndProblemsJson> => {
  const { clock, queries, config } = services
  const [nodes, found, evidence] = await Promise.all([
    readNodes(services),
    services.observer().then(observer => observer.problems()),
    queries.evidence({ since: clock.now() - dayMs }).catch(undefinedWithoutStore),
  ])
  // Of the states that were just read.
  const { incidents } = await services.readIncidents(undefined)
  const alerts = evidence === undefined ? withStoreFailure(found) : found
  return { ...nodes, ...describeProblems({ networks: nodes.networks, alerts, evidence: evidence ?? [], config, incidents }) }
}

const describeNodes = (nodes: NetworkCounters['nodes']) => {
  const described = Object.entries(nodes).map(([name, node]) => ({ name, ...toJson(nodeFigures(node)), errors: describeErrors(node) }))
  const requests = described.reduce((sum, node) => sum + node.requests, 0)
  return described.map(node => ({ ...node, share: requests === 0 ? null : node.requests / requests }))
}

const describeErrors = ({ failures }: Pick<NetworkCounters['nodes'][string], 'failures'>) =>
  Object.entries(failures)
    .filter(([, count]) => count > 0)
    .sort(([, a], [, b]) => b - a)
    .map(([error, count]) => ({ error, failures: count }))

/** Null in place of undefined. */
const toJson = <T extends object>(figures: T): OrNull<T> =>
  // Each member stays, or becomes null.
  Object.fromEntries(Object.entries(figures).map(([name, value]) => [name, value ?? null])) as OrNull<T>
