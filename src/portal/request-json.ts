import type { RequestLogConfig } from '../services/request-log.ts'
import type { StoredRequest } from '../store/request-log-store.ts'
import type { AccountRow } from '../store/store.ts'
import { successOutcome } from '../store/usage-store.ts'
import { isoTime } from '../util/dates.ts'
import { count, countOrNull, flag, number, text, textOrNull, time } from './response-schemas.ts'
import { adviceOf, refusalOf } from './outcome-advice.ts'

/** Does the account have parameters, and the messages of errors, logged? */
export const keepsParams = ({ params }: RequestLogConfig, { requestLog }: AccountRow): boolean => params && requestLog === undefined

/** A request as the APIs show it. `keepsParams`: with its parameters, and the message of its error. */
export const requestJson = (request: StoredRequest, keepsParams: boolean) => {
  const { id, time, outcome, category, meant = null, code, message, isSlow = false, ...rest } = request
  const { params = null, paramsOmitted = null, isCut = false } = request
  const { requestId, transport, key, network, method, credits, durationMs, cache = null, attempts = null, upstream = null } = rest
  const hasFailed = outcome !== successOutcome
  return {
    id,
    time: isoTime(time),
    requestId,
    transport,
    key,
    network,
    method,
    params: keepsParams ? params : null,
    paramsOmitted: keepsParams ? paramsOmitted : ('setting' as const),
    isCut: keepsParams && isCut,
    outcome,
    code: code ?? null,
    message: (keepsParams ? message : undefined) ?? refusalOf(outcome)?.message ?? null,
    advice: hasFailed ? adviceOf(outcome, category) : null,
    meantMethod: meant,
    credits,
    durationMs,
    isSlow,
    cache,
    attempts,
    upstream,
  }
}

export type RequestJson = ReturnType<typeof requestJson>

/** What requestJson() returns. */
export const requestProperties = {
  id: text,
  time,
  transport: text,
  key: text,
  network: text,
  method: text,
  requestId: { type: 'string', description: 'As X-Request-Id has it; the calls of a batch share it.' },
  params: { ...textOrNull, description: 'JSON, cut to 1 KiB; null where parameters are not stored, or the request had none.' },
  paramsOmitted: {
    type: ['string', 'null'],
    enum: ['setting', 'unknownMethod', 'transaction', null],
    description: 'Why they are not stored: by a setting, of a method that the network does not have, or of one that sends transactions.',
  },
  isCut: { type: 'boolean', description: 'Whether the end of `params` is missing.' },
  outcome: { type: 'string', description: '`ok`, or the kind of the failure.' },
  code: { type: ['integer', 'null'] },
  message: textOrNull,
  advice: { ...textOrNull, description: 'Why the call failed, and what to do.' },
  meantMethod: { ...textOrNull, description: 'Of a method that the network does not have: the one that was probably meant.' },
  credits: count,
  durationMs: number,
  isSlow: flag,
  cache: { type: ['string', 'null'], enum: ['hit', 'miss', null] },
  attempts: { ...countOrNull, description: 'Requests to nodes.' },
  upstream: { ...textOrNull, description: 'The name of the node, as X-Tollgate-Upstream has it.' },
} as const
