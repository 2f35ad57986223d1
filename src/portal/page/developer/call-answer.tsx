import { Badge } from '../components/badge.tsx'
import { Banner } from '../components/banner.tsx'
import { CopyCode } from '../components/controls.tsx'
import { Facts } from '../components/facts.tsx'
import { followLink } from '../router.ts'
import { buildTexts } from './build-texts.ts'
import { decodeResult } from './decode.ts'
import { isJson } from './json-text.ts'
import type { CallAnswer } from './try-call.ts'

const text = buildTexts.tryIt

interface RpcAnswer {
  readonly result?: unknown
  readonly error?: { readonly code: number; readonly message: string }
}

const parseAnswer = (body: string): RpcAnswer => {
  const value: unknown = isJson(body) ? JSON.parse(body) : undefined
  return typeof value === 'object' && value !== null ? value : {}
}

export const isSuccess = (body: string): boolean => 'result' in parseAnswer(body)

/** What the gateway answered: in words first, then as it is. */
export const Answer = ({
  method,
  answer: { status, body, durationMs, requestId, headers },
}: {
  readonly method: string
  readonly answer: CallAnswer
}) => {
  const { result, error } = parseAnswer(body)
  const decoded = error === undefined ? decodeResult(method, result) : []
  return (
    <section class="card" aria-label={text.response} role="status">
      <div class="heading">
        <h2>{text.response}</h2>
        <span class="actions">
          <Badge tone={status === 200 && error === undefined ? 'ok' : 'danger'}>HTTP {status}</Badge>
          <Badge isLabel>
            {durationMs.toFixed(0)} ms {text.roundTrip}
          </Badge>
        </span>
      </div>
      {error !== undefined && (
        <Banner tone="danger" title={String(error.code)}>
          {error.message}
        </Banner>
      )}
      {decoded.length > 0 && <Facts of={decoded.map(({ name, text: value }) => [name, value])} label={text.decoded} />}
      <div data-testid="response">
        <CopyCode text={body} label={text.response} />
      </div>
      {headers.length > 0 && <Facts of={headers.map(([name, value]) => [name, <code key={name}>{value}</code>])} />}
      {requestId !== null && (
        <p>
          <a href={`/requests?${new URLSearchParams({ search: requestId })}`} onClick={followLink}>
            {text.showRequest}
          </a>
        </p>
      )}
    </section>
  )
}
