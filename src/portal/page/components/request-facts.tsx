import type { ComponentChildren } from 'preact'
import type { RequestJson } from '../../request-json.ts'
import { formatLatency, formatNode, formatNumber, formatOutcome, formatSeconds } from '../format.ts'
import { texts } from '../texts.ts'
import { Badge } from './badge.tsx'
import type { Tone } from './badge.tsx'
import { CopyText } from './controls.tsx'
import { Facts } from './facts.tsx'
import type { Fact } from './facts.tsx'

const text = texts.requests

interface OutcomeProps {
  readonly shown: Pick<RequestJson, 'outcome' | 'code' | 'isSlow'>
  /** Of a call that failed, where it depends on whose fault that was. */
  readonly toneOfFailure?: Tone
}

export const Outcome = ({ shown: { outcome, code, isSlow }, toneOfFailure = 'danger' }: OutcomeProps) => (
  <span class="buttons">
    <Badge tone={outcome === 'ok' ? 'ok' : toneOfFailure}>
      <span>
        {formatOutcome(outcome)}
        {code !== null && <span class="code"> ({code})</span>}
      </span>
    </Badge>
    {isSlow && <Badge tone="warn">{texts.outcomes.slow}</Badge>}
  </span>
)

interface RequestFactsProps {
  readonly shown: Omit<RequestJson, 'key' | 'params' | 'paramsOmitted' | 'meantMethod' | 'isCut'>
  /** Whose it is. */
  readonly of: readonly Fact[]
  /** Its node, where there is more to see of it. */
  readonly node?: ComponentChildren
}

/** How a logged request went. */
export const RequestFacts = ({ shown, of, node }: RequestFactsProps) => {
  const facts: readonly Fact[] = [
    [texts.usage.time, formatSeconds(shown.time)],
    ...of,
    [texts.usage.network, shown.network],
    [text.transport, shown.transport],
    [text.duration, formatLatency(shown.durationMs)],
    [texts.credits, formatNumber(shown.credits)],
    [text.cache, shown.cache ?? '–'],
    [text.attempts, formatNumber(shown.attempts)],
    [text.upstream, node || formatNode(shown)],
  ]
  return (
    <Facts of={facts}>
      <div class="wide">
        <dt>{text.requestId}</dt>
        <dd>
          <CopyText text={shown.requestId} label={text.requestId} />
        </dd>
      </div>
    </Facts>
  )
}
