import { readFileSync } from 'node:fs'
import { isJsonObject } from '../../src/util/json.ts'
import type { RequestTemplate } from './load/load-generator.ts'

// What client libraries sent to a node, recorded by test/tools/record-traffic.ts.

/** The file of the recording, whose lines are one RecordedMessage each. */
export const recordingUrl = new URL('../../../test/bench/recorded-traffic.jsonl', import.meta.url)

export interface RecordedCall {
  readonly jsonrpc: '2.0'
  /** Counts from 1 in each message, whatever the library sent. */
  readonly id: number
  readonly method: string
  readonly params?: readonly unknown[]
}

/** A message of a library: its members are in the order in which the library wrote them. */
export interface RecordedMessage {
  readonly client: string
  /** How often the client sent the message; the ids of the messages differ. */
  readonly count: number
  readonly message: RecordedCall | readonly RecordedCall[]
  /** The results of its calls, at the end of the recording: two equal calls have equal results. */
  readonly results: readonly unknown[]
}

/** The calls of a message: one, or those of a batch. */
export const callsOf = ({ message }: Pick<RecordedMessage, 'message'>): readonly RecordedCall[] =>
  'method' in message ? [message] : message

/** Equal calls have equal keys: a gateway may sort members, send hex digits in lower case, and add `latest`. */
export const callKey = (method: string, params: readonly unknown[] = []): string => {
  const withoutDefault = params.at(-1) === 'latest' ? params.slice(0, -1) : params
  return method + JSON.stringify(withoutDefault, sortMembers).toLowerCase()
}

const sortMembers = (_: string, value: unknown): unknown =>
  isJsonObject(value) ? Object.fromEntries(Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1))) : value

const readMessages = (): readonly RecordedMessage[] =>
  readFileSync(recordingUrl, 'utf8')
    .trim()
    .split('\n')
    .map(line => JSON.parse(line) as RecordedMessage) // the file is written by record-traffic.ts alone

/** The result of each recorded call. */
export const readRecordedResults = () =>
  readMessages().flatMap(recorded => callsOf(recorded).map(({ method, params }, i) => ({ method, params, result: recorded.results[i] })))

const toTemplate = ({ message, results }: RecordedMessage): RequestTemplate => {
  const texts = results.map(result => JSON.stringify(result))
  return 'method' in message
    ? { body: JSON.stringify({ ...message, id: '#id#' }).replace('"#id#"', '#id#'), status: 200, results: texts }
    : { body: JSON.stringify(message), status: 200, results: texts, batchSize: message.length }
}

/** Each message as often as it was sent. What was sent more than once is spread: polls do not follow one another. */
export const readRecordedRequests = (): readonly RequestTemplate[] => {
  const messages = readMessages()
  const maxCount = Math.max(...messages.map(({ count }) => count))
  return Array.from({ length: maxCount }, (_, i) => messages.filter(({ count }) => count > i).map(toTemplate)).flat()
}
