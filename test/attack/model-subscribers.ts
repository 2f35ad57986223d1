import { parseLogFilter } from '../../plugins/subscriptions/log-filter.ts'
import type { Fetch } from '../../plugins/subscriptions/missed-changes.ts'
import type { Topic } from '../../plugins/subscriptions/subscription.ts'
import { fakeAccount } from '../support/fakes.ts'
import type { HashReplay, HeaderReplay, LogEvent, LogReplay } from './subscriber-replays.ts'
import type { ClusterWorker, ModelSocket } from './subscription-cluster.ts'

export type Replay = HeaderReplay | LogReplay | HashReplay

export interface Subscriber {
  readonly worker: ClusterWorker
  readonly socket: ModelSocket
  readonly replays: readonly Replay[]
}

/** A caller that polls a filter, of whichever worker. */
export class Poller {
  readonly replay: LogReplay | HashReplay
  isLost = false
  isPolling = false
  readonly #id: Promise<unknown>

  constructor(replay: LogReplay | HashReplay, id: Promise<unknown>) {
    this.replay = replay
    this.#id = id
  }

  async poll(worker: ClusterWorker, fetch: Fetch): Promise<void> {
    if (this.isLost || this.isPolling) return
    this.isPolling = true
    const id = await this.#id
    const answer = typeof id === 'string' ? await worker.subscriptions.filters.changes({ id, account: fakeAccount.id }, fetch) : undefined
    this.isPolling = false
    this.isLost = answer === undefined
    if (answer === undefined || 'error' in answer) return // the upstreams do not answer now
    answer.onSettled(true)
    for (const change of JSON.parse(answer.text) as readonly unknown[]) this.replay.add(change as LogEvent & string)
  }
}

const parseAll = () => {
  const filter = parseLogFilter({}, 'eth_subscribe')
  if ('error' in filter) throw new Error(filter.error.message)
  return filter
}

export const allLogs = parseAll()
export const topics: readonly Topic[] = [{ kind: 'newHeads' }, { kind: 'logs', filter: allLogs }]
