import { problemSeverities } from '../../services/plugin-problems.ts'
import { authorSchema, count, listOf, object, text, textOrNull, time, timeOrNull } from '../response-schemas.ts'
import type { JsonOf } from '../response-schemas.ts'

export const acknowledgmentProperties = {
  by: { ...authorSchema, description: 'The operator who looks after it.' },
  at: time,
  note: textOrNull,
} as const

const acknowledgment = object(acknowledgmentProperties)

/** An operator looks after an incident: operators of all gateways on the store see that, until it has ended. */
export type Acknowledgment = JsonOf<typeof acknowledgment>

export const acknowledgmentOrNull = { oneOf: [acknowledgment, { type: 'null' }] } as const

/** `info`: nobody needs to be told. The node gets fewer calls, or an operator has drained it. */
export const incidentSeverities = [...problemSeverities, 'info'] as const

export type IncidentSeverity = (typeof incidentSeverities)[number]

/** What kept calls from nodes, as far as the gateway that is asked has run. */
export const incidentsSchema = object({
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
        acknowledged: { ...acknowledgmentOrNull, description: 'Null where nobody looks after it, and once it has ended.' },
      }),
    ),
    description: 'Those that last come first, then the newest: 500 at most.',
  },
})

export type IncidentsJson = JsonOf<typeof incidentsSchema>

export type IncidentJson = IncidentsJson['incidents'][number]
