import { nodeId, readmitNode } from '../../services/drained-nodes.ts'
import { clearEvidence, findEvidence, toEvidenceSummary } from '../../services/evidence.ts'
import type { Evidence, EvidenceSummary } from '../../services/evidence.ts'
import { hourMs, isoTime } from '../../util/dates.ts'
import { ApiError } from '../api-errors.ts'
import { count, flag, listOf, object, schemaRef, text, time } from '../response-schemas.ts'
import type { JsonOf } from '../response-schemas.ts'
import { findNode } from './node-operations.ts'
import { defineOperation, tableOr } from './operation.ts'

const summary = {
  id: text,
  time,
  network: text,
  node: text,
  method: { ...text, description: 'What the node was sent.' },
  cause: { ...text, description: 'What is not so.' },
  proven: {
    ...flag,
    description: 'The result does not fit the header of its block, on which upstreams agree. False: it contradicts itself.',
  },
} as const

/** What the operations return, by the name in the OpenAPI document. */
export const evidenceSchemas = {
  EvidenceList: object({ evidence: listOf(object(summary)) }),
  Evidence: object({
    ...summary,
    class: { ...text, description: 'Of the method of the call.' },
    params: { type: 'array', items: {}, description: 'What the node was sent; one text where they are long.' },
    answer: { ...text, description: 'The JSON text of the result: its first 16 KiB.' },
    answerBytes: { ...count, description: 'Of the whole text.' },
    answerSha256: { ...text, description: 'Of the whole text, in hex.' },
    header: { type: ['object', 'null'], description: 'What the header of the block has; null where the result contradicts itself.' },
  }),
  ClearedEvidence: object({ cleared: count }),
} as const

export type EvidenceListJson = JsonOf<typeof evidenceSchemas.EvidenceList>

export type EvidenceSummaryJson = EvidenceListJson['evidence'][number]

const toJson = ({ time: ms, upstream, isProven, ...summary }: EvidenceSummary): EvidenceSummaryJson => ({
  ...summary,
  time: isoTime(ms),
  node: upstream,
  proven: isProven,
})

const detailsOf = (found: Evidence) => {
  const { methodClass, request, answer, answerBytes, answerSha256, header } = found
  return { ...toJson(toEvidenceSummary(found)), class: methodClass, params: request.params, answer, answerBytes, answerSha256, header }
}

export type EvidenceJson = ReturnType<typeof detailsOf>

export const evidenceOperations = [
  defineOperation({
    name: 'evidence list',
    method: 'get',
    path: '/evidence',
    operationId: 'listEvidence',
    summary: 'Wrong results of nodes that the plugin verify has found, the newest first: the last 200 are kept.',
    input: {
      type: 'object',
      properties: {
        network: { type: 'string', description: 'Only of the network of this name.' },
        node: { type: 'string', description: 'Only of the nodes of this name.' },
        hours: { type: 'integer', minimum: 1, maximum: 10_000, description: 'Only of so many hours, up to now.' },
      },
    },
    output: schemaRef('EvidenceList'),
    async run({ network, node, hours }, { queries, clock }) {
      const since = hours === undefined ? undefined : clock.now() - hours * hourMs
      return { evidence: (await queries.evidence({ network, node, since })).map(toJson) }
    },
    command: {
      flags: { network: { placeholder: 'NAME' }, node: { placeholder: 'NAME' }, hours: { placeholder: 'N' } },
      text: ({ evidence }) =>
        tableOr(
          'no node has been found wrong',
          ['ID', 'TIME', 'NETWORK', 'NODE', 'METHOD', 'WHAT'],
          evidence.map(each => [each.id, each.time, each.network, each.node, each.method, each.cause]),
        ),
    },
  }),
  defineOperation({
    name: 'evidence show',
    method: 'get',
    path: '/evidence/{id}',
    summary: 'One wrong result: what the node was sent, what it answered, and the header that shows that it is wrong.',
    input: { type: 'object', properties: { id: { type: 'string', description: 'As `evidence list` shows it.' } }, required: ['id'] },
    output: schemaRef('Evidence'),
    async run({ id }, { store }) {
      const found = await findEvidence(store, id)
      if (found === undefined)
        throw new ApiError(404, 'not-found', `no evidence has the id "${id}"; \`evidence list\` shows those that have been kept`)
      return detailsOf(found)
    },
    command: {
      positionals: { id: 'ID' },
      text: ({ params, answer, header, proven, ...rest }) => [
        { fields: { ...rest, proven: proven ? 'yes' : 'no' } },
        ...['', 'Sent:', JSON.stringify(params), '', 'Answered:', answer],
        ...(header === null ? [] : ['', 'The header of the block:', JSON.stringify(header, null, 2)]),
      ],
    },
  }),
  defineOperation({
    name: 'evidence clear',
    method: 'post',
    path: '/nodes/{network}/{node}/clear-evidence',
    operationId: 'clearEvidence',
    summary: 'Removes what is kept about a node, and sends it calls of all classes again, within about a second.',
    input: {
      type: 'object',
      properties: {
        network: { type: 'string', description: 'The name of the network.' },
        node: { type: 'string', description: 'The name of an upstream of the network.' },
      },
      required: ['network', 'node'],
    },
    output: schemaRef('ClearedEvidence'),
    async run({ network, node }, { store, accounts, clock, nodes }) {
      const name = { network, upstream: node }
      const cleared = await clearEvidence(store, name)
      // There may be evidence of a node that the configuration no longer has.
      if (cleared === 0) findNode(await nodes(), network, node)
      await readmitNode(store, name, clock.now())
      await accounts.record({ action: 'evidence-cleared', target: nodeId(name) })
      return { cleared }
    },
    command: {
      positionals: { network: 'NETWORK', node: 'NODE' },
      text: ({ cleared }, { network, node }) => [`removed ${cleared} of ${network}/${node}, which is trusted again`],
    },
  }),
]
