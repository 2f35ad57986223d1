import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import type { NetworkJson } from '../../routes/networks.ts'
import { now } from '../clock.ts'
import { Badge } from '../components/badge.tsx'
import { Notice } from '../components/controls.tsx'
import { Icon } from '../components/icon.tsx'
import { formatNumber } from '../format.ts'
import { buildTexts } from './build-texts.ts'
import { callBody } from './code-samples.ts'
import { indentJson, isJson } from './json-text.ts'

const text = buildTexts.subscription

/** What a form asks for. */
export interface Subscribing {
  readonly network: NetworkJson
  readonly key: string
  readonly params: readonly string[]
}

interface LiveEvent {
  readonly id: number
  /** ISO 8601. */
  readonly time: string
  readonly body: string
}

/** Older events are dropped. */
const maxEvents = 50

type ConnectionState = 'connecting' | 'open' | 'closed'

/** Subscribes over a WebSocket, and shows the events as they arrive, until it is stopped. */
export const Subscription = ({ network, key, params, onStop }: Subscribing & { onStop(): void }) => {
  const state = useSignal<ConnectionState>('connecting')
  const events = useSignal<readonly LiveEvent[]>([])
  const error = useSignal<string | undefined>(undefined)
  const count = useRef(0)
  useEffect(() => {
    const socket = new WebSocket(`${network.ws}/ws/v3/${key}`)
    socket.addEventListener('open', () => socket.send(callBody('eth_subscribe', params)))
    socket.addEventListener('message', ({ data }: MessageEvent<string>) => {
      const message = isJson(data) ? JSON.parse(data) : {}
      if (message.error !== undefined) {
        error.value = message.error.message
        // Nothing comes any more.
        socket.close()
      } else if (message.method !== 'eth_subscription') state.value = 'open'
      else {
        count.current += 1
        const event = { id: count.current, time: new Date(now.peek()).toISOString(), body: indentJson(data) }
        events.value = [event, ...events.value].slice(0, maxEvents)
      }
    })
    socket.addEventListener('close', ({ reason }) => {
      state.value = 'closed'
      // A key that is refused gets no answer: the handshake fails.
      if (count.current === 0) error.value ??= reason || text.refused
    })
    return () => socket.close()
  }, [])
  return (
    <section class="card" aria-label={text.title}>
      <div class="heading">
        <h2>
          {text.title}{' '}
          <Badge tone={state.value === 'open' ? 'ok' : state.value === 'closed' ? 'danger' : 'neutral'}>{text[state.value]}</Badge>
        </h2>
        <button type="button" class="quiet" onClick={onStop}>
          <Icon name="close" />
          {text.stop}
        </button>
      </div>
      <Notice text={error.value} />
      <p class="lead" role="status">
        {events.value.length > 0 ? `${formatNumber(count.current)} ${text.events}` : state.value !== 'closed' && text.waiting}
      </p>
      <ol class="events">
        {events.value.map(({ id, time, body }) => (
          <li key={id}>
            <details open={id === count.current}>
              <summary>
                #{id} <time dateTime={time}>{time.slice(11, 23)} UTC</time>
              </summary>
              <pre tabIndex={0}>{body}</pre>
            </details>
          </li>
        ))}
      </ol>
    </section>
  )
}
