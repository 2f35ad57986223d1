import { nodeId } from '../../services/drained-nodes.ts'
import { formatByClass } from '../../services/node-reasons.ts'
import { isoTime } from '../../util/dates.ts'
import { acknowledgeIncidents, isOfSubject, unacknowledgeIncidents } from '../alerts/shared-incidents.ts'
import type { AcknowledgedSubject } from '../alerts/shared-incidents.ts'
import { ApiError } from '../api-errors.ts'
import { nameOfKind } from '../state-labels.ts'
import { count, object, schemaRef } from '../response-schemas.ts'
import { findNetwork, findNode } from './node-operations.ts'
import { acknowledgmentProperties, incidentsSchema } from './incident-schemas.ts'
import type { IncidentJson } from './incident-schemas.ts'
import { defineOperation, tableOr } from './operation.ts'
import type { OperationServices } from './operation.ts'

/** What the operations return, by the name in the OpenAPI document. */
export const incidentSchemas = {
  Incidents: incidentsSchema,
  Acknowledged: object({
    ...acknowledgmentProperties,
    incidents: { ...count, description: 'Those that last; 0: there was nothing to acknowledge.' },
  }),
  Unacknowledged: object({ incidents: { ...count, description: 'Those that last, and were acknowledged.' } }),
} as const

const subjectProperties = {
  network: { type: 'string', description: 'The name of the network.' },
  node: { type: 'string', description: 'Only incidents of this node; without it, those of the network and all of its nodes.' },
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
    run: ({ network }, services) => services.readIncidents(network),
    command: {
      flags: { network: { placeholder: 'NAME' } },
      text: ({ incidents }) =>
        tableOr(
          'nothing has kept calls from a node, as far as the gateway has run',
          ['BEGAN', 'ENDED', 'TIMES', 'NETWORK', 'NODE', 'WHAT', 'WHY', 'ACKNOWLEDGED BY'],
          incidents.map(toCells),
        ),
    },
  }),
  defineOperation({
    name: 'nodes acknowledge',
    method: 'post',
    path: '/overview/incidents/acknowledge',
    operationId: 'acknowledgeIncidents',
    summary:
      'Says that you look after what is wrong with a node, or with a network and its nodes: operators of all gateways see that until it has ended.',
    input: {
      type: 'object',
      properties: { ...subjectProperties, note: { type: 'string', maxLength: 200, description: 'For other operators: such as a ticket.' } },
      required: ['network'],
    },
    output: schemaRef('Acknowledged'),
    async run({ network, node, note: typedNote = '' }, services) {
      const { accounts, clock } = services
      const subject = await findSubject({ network, node }, services)
      const { incidents } = await services.readIncidents(network)
      const seen = incidents.filter(each => isAcknowledgeable(each) && isOfSubject(each, subject))
      const note = typedNote.trim() || null
      const acknowledgment = { by: accounts.author, at: isoTime(clock.now()), note }
      const acknowledgedCount = await acknowledgeIncidents(
        services,
        subject,
        seen.map(({ kind, class: methodClass, text: why, severity, began, node: of }) => ({
          ...{ network, node: of, kind, class: methodClass, text: why, began },
          severity: severity === 'critical' ? severity : 'warning',
        })),
        acknowledgment,
      )
      if (acknowledgedCount > 0)
        await accounts.record({ action: 'problem-acknowledged', target: nameSubject(subject), ...(note !== null && { after: { note } }) })
      return { ...acknowledgment, incidents: acknowledgedCount }
    },
    command: {
      positionals: { network: 'NETWORK' },
      flags: { node: { placeholder: 'NAME' }, note: { placeholder: 'TEXT' } },
      text: ({ incidents }, subject) => [
        incidents === 0
          ? `${nameSubject(subject)} has no problem now`
          : `other operators see that you look after ${nameSubject(subject)}, until its problems have ended`,
      ],
    },
  }),
  defineOperation({
    name: 'nodes unacknowledge',
    method: 'post',
    path: '/overview/incidents/unacknowledge',
    operationId: 'unacknowledgeIncidents',
    summary: 'Takes back that somebody looks after what is wrong with a node, or with a network and its nodes.',
    input: { type: 'object', properties: subjectProperties, required: ['network'] },
    output: schemaRef('Unacknowledged'),
    async run(input, services) {
      const subject = await findSubject(input, services)
      const incidents = await unacknowledgeIncidents(services, subject)
      if (incidents > 0) await services.accounts.record({ action: 'problem-unacknowledged', target: nameSubject(subject) })
      return { incidents }
    },
    command: {
      positionals: { network: 'NETWORK' },
      flags: { node: { placeholder: 'NAME' } },
      text: ({ incidents }, subject) => [
        incidents === 0
          ? `nobody had acknowledged a problem of ${nameSubject(subject)}`
          : `nobody looks after ${nameSubject(subject)} any more`,
      ],
    },
  }),
]

/** It lasts, and is no wish of an operator; those of a gateway are not shared. */
export const isAcknowledgeable = ({ network, severity, ended }: Pick<IncidentJson, 'network' | 'severity' | 'ended'>): boolean =>
  network !== null && severity !== 'info' && ended === null

const nameSubject = ({ network, node }: AcknowledgedSubject): string => (node === undefined ? network : nodeId({ network, upstream: node }))

/** Throws ApiError. */
const findSubject = async (subject: AcknowledgedSubject, { config, nodes }: OperationServices): Promise<AcknowledgedSubject> => {
  if (config.listen.portal === undefined)
    throw new ApiError(409, 'no-dashboard', 'gateways without a dashboard do not share incidents: set `listen.portal` in gateway.yaml')
  const view = await nodes()
  if (subject.node === undefined) findNetwork(view, subject.network)
  else findNode(view, subject.network, subject.node)
  return subject
}

const toCells = ({
  began,
  ended,
  times,
  network,
  node,
  kind,
  class: methodClass,
  text: why,
  acknowledged,
}: IncidentJson): readonly string[] => [
  ...[began.slice(0, 19), ended?.slice(0, 19) ?? 'ongoing', String(times), network ?? '-', node ?? '-'],
  ...[formatByClass(nameOfKind(kind), methodClass), why],
  acknowledged === null ? '-' : [acknowledged.by.name, ...(acknowledged.note === null ? [] : [acknowledged.note])].join(': '),
]
