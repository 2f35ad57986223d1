import type { Clock } from '../../services/clock.ts'
import { neverExpires } from '../../store/record-store.ts'
import type { RecordStore, StoredRecord } from '../../store/record-store.ts'
import { isoTime } from '../../util/dates.ts'
import { toJson } from '../../util/json.ts'
import type { IncidentLog } from '../portal-services.ts'
import type { OperatorAlert } from './delivery-records.ts'
import { operatorsId } from './webhook-signature.ts'

/** What gateways on the store have seen of a node, a network or a plugin. `ended` is null while one of them sees it. */
export type SharedIncident = OperatorAlert['data'] & {
  readonly id: string
  /** In ms since 1970, when a gateway has seen it last. */
  readonly seen: number
}

/** What comes back within this time, at any gateway, has not ended. A gateway with many accounts reports every 60 s (maxRestMs of rounds). */
export const endedAfterMs = 120_000
/** Written anew no more often while an incident lasts. */
const renewIntervalMs = 20_000

export interface SharedIncidentsOptions {
  readonly store: Pick<RecordStore, 'findRecord' | 'addRecord' | 'replaceRecord' | 'records' | 'takeRecord'>
  readonly clock: Pick<Clock, 'now'>
  /** What this gateway sees. */
  incidents(): Promise<Pick<IncidentLog, 'list'>>
}

/** Each gateway reports into the store what it sees: so an incident is one for all of them, and has ended when none sees it any more. */
export class SharedIncidents {
  readonly #options: SharedIncidentsOptions
  #reportedAt: number

  constructor(options: SharedIncidentsOptions) {
    this.#options = options
    this.#reportedAt = options.clock.now()
  }

  /** What this gateway sees; and what began and ended since it reported last, as while the store was unreachable. */
  async report(): Promise<void> {
    const { store, clock } = this.#options
    const incidents = (await this.#options.incidents()).list()
    const now = clock.now()
    for (const { network, node = null, kind, class: methodClass, text, severity, began, ended } of incidents) {
      if (severity === 'info' || (ended ?? now) < this.#reportedAt) continue
      const seen = ended ?? now
      const id = [operatorsId, network, node, kind, methodClass].join(' ')
      const value: IncidentRecord = { network, node, kind, class: methodClass, severity, text, began: isoTime(began), seen }
      const found = await store.findRecord('incident', id)
      // Where another gateway is quicker, it has seen the same.
      if (found === undefined) await store.addRecord('incident', { id, account: operatorsId, value: toJson(value), expires: neverExpires })
      else if (seen >= recordOf(found).seen + (ended === undefined ? renewIntervalMs : 1))
        await store.replaceRecord('incident', found, toJson({ ...recordOf(found), severity, seen }))
    }
    this.#reportedAt = now
  }

  /** Those that last, and those that have ended and were not removed. */
  async list(): Promise<readonly SharedIncident[]> {
    const { store, clock } = this.#options
    const now = clock.now()
    return (await store.records('incident', operatorsId)).map(record => {
      const incident = recordOf(record)
      const ended = now >= incident.seen + endedAfterMs ? isoTime(incident.seen) : null
      return { ...incident, ended, id: record.id }
    })
  }

  /** Once everybody has been told of its end. */
  async remove({ id }: SharedIncident): Promise<void> {
    await this.#options.store.takeRecord('incident', id)
  }
}

type IncidentRecord = Omit<SharedIncident, 'id' | 'ended'>

/** Written by report() alone. */
const recordOf = ({ value }: StoredRecord): IncidentRecord => value as unknown as IncidentRecord
