import type { NetworkStatusJson } from '../../routes/networks.ts'
import { now } from '../clock.ts'
import { formatAge, formatMoment, formatNumber } from '../format.ts'
import { texts } from '../texts.ts'
import { Badge } from './badge.tsx'
import type { Tone } from './badge.tsx'

// What developers, operators and the public are told of a network, in the same words.

const text = texts.networks

type NetworkStateName = NetworkStatusJson['state']

const tones: Readonly<Record<NetworkStateName, Tone>> = {
  ok: 'ok',
  degraded: 'warn',
  stalled: 'warn',
  down: 'danger',
  unknown: 'neutral',
}

export const StateBadge = ({ state }: Pick<NetworkStatusJson, 'state'>) => <Badge tone={tones[state]}>{text.states[state]}</Badge>

/** `1 of 2 usable`. */
export const usableNodesOf = ({ nodes, usableNodes }: Pick<NetworkStatusJson, 'nodes' | 'usableNodes'>): string =>
  nodes === 0 ? '–' : `${formatNumber(usableNodes)} ${texts.of} ${formatNumber(nodes)} ${text.usable}`

/** The newest block, and how old it was when somebody looked last; where that is long ago, or nobody answers, when it was seen. */
export const NewestBlock = ({ head, lastHead, state }: Pick<NetworkStatusJson, 'head' | 'lastHead' | 'state'>) => {
  if (lastHead === null) return <>{state === 'down' ? text.noAnswer : text.notYet}</>
  const { number, since, checkedAt } = lastHead
  if (head === null || state === 'down' || state === 'unknown')
    return (
      <>
        {formatNumber(number)} <span class="since one-line">{`${text.lastSeen} ${formatMoment(checkedAt, now.value)}`}</span>
      </>
    )
  return (
    <>
      {formatNumber(head)}{' '}
      <span class={state === 'stalled' ? 'since one-line error' : 'since one-line'}>
        {formatAge(Date.parse(checkedAt) - Date.parse(since))} {text.old}
      </span>
    </>
  )
}
