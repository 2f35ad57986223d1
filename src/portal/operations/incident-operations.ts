import { formatByClass } from '../../services/node-reasons.ts'
import { nameOfKind } from '../state-labels.ts'
import { count, listOf, object, schemaRef, text, textOrNull, time, timeOrNull } from '../openapi.ts'
import { defineOperation, incidentSeverities } from './operation.ts'
import type { IncidentJson, IncidentsJson } from './operation.ts'

/** What the operation returns, by the name in the OpenAPI document. */
export const incidentSchemas = {
  Incidents: object({
    since: { ...time, description: 'What ended before is not kept; nor is anything from before the start of this gateway.' },
    incidents: {
      ...listOf(
        object({
          network: { ...textOrNull, description: 'Null: the gateway.' },
          node: { ...textOrNull, description: 'Null: the network, or the gateway.' },
          kind: {
            ...text,
            description:
              'A state of the network, or `notUsable`, or a reason of the node; a plugin and its problem, such as `verify beacon-behind`; of the gateway `store` and an outage of the store, such as `store unreachable`, or the name of an alert rule in deploy/prometheus/alerts.yaml.',
          },
          class: { ...text, description: 'Of methods; `all` for every class.' },
          text: { ...text, description: 'Why.' },
          severity: {
            type: 'string',
            enum: incidentSeverities,
            description: '`critical`: callers notice, or an answer was proven wrong. `info`: no alert to operators is sent.',
          },
          began: time,
          ended: { ...timeOrNull, description: 'Null while it lasts.' },
          times: { ...count, description: 'How often: what comes back within a minute is one incident.' },
        }),
      ),
      description: 'Those that last come first, then the newest: 500 at most.',
    },
  }),
} as const

/** With the command `nodes`. */
export const incidentOperations = [
  defineOperation({
    name: 'nodes incidents',
    method: 'get',
    path: '/overview/incidents',
    summary:
      'What kept calls from nodes, and problems of the gateway such as outages of the store, in the last 24 hours, as far as this gateway has run: from when, until when, and why.',
    input: {
      type: 'object',
      properties: { network: { type: 'string', description: 'Only those of this network.' } },
    },
    output: schemaRef('Incidents'),
    run: ({ network }, services): Promise<IncidentsJson> => services.readIncidents(network),
    command: {
      flags: { network: { placeholder: 'NAME' } },
      text: ({ incidents }) =>
        incidents.length === 0
          ? ['nothing has kept calls from a node, as far as the gateway has run']
          : [{ columns: ['BEGAN', 'ENDED', 'TIMES', 'NETWORK', 'NODE', 'WHAT', 'WHY'], rows: incidents.map(toCells) }],
    },
  }),
]

const toCells = ({ began, ended, times, network, node, kind, class: methodClass, text: why }: IncidentJson): readonly string[] => [
  ...[began.slice(0, 19), ended?.slice(0, 19) ?? 'ongoing', String(times), network ?? '-', node ?? '-'],
  ...[formatByClass(nameOfKind(kind), methodClass), why],
]
