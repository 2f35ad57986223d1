import type { Clock } from '../../services/clock.ts'
import { neverExpires } from '../../store/record-store.ts'
import type { RecordStore, StoredRecord } from '../../store/record-store.ts'
import { dayMs, isoTime } from '../../util/dates.ts'
import { toJson } from '../../util/json.ts'
import type { Acknowledgment } from '../operations/incident-schemas.ts'
import type { NodeIncidents } from '../operator/node-incidents.ts'
import type { OperatorAlert } from './delivery-records.ts'
import { operatorsId } from './webhook-signature.ts'

/** What gateways on the store have seen of a node, a network or a plugin. `ended` is null while one of them sees it. */
export type SharedIncident = OperatorAlert['data'] & {
  /** In ms since 1970, when a gateway has seen it last. */
  readonly seen: number
  /** A gateway has told of its end whom it could. Gateways may differ in networks and receivers: others tell theirs. */
  readonly hasEnded: boolean
  readonly acknowledged: Acknowledgment | undefined
  readonly record: StoredRecord
}

/** What comes back within this time, at any gateway, has not ended. A gateway with many accounts reports every 60 s (maxRestMs of rounds). */
export const endedAfterMs = 120_000
/** Written anew no more often while an incident lasts. */
const renewIntervalMs = 20_000
/** So long what has ended is known: a gateway that could not report may still see it, or have receivers of its own to tell. */
const endedRetentionMs = dayMs

export interface SharedIncidentsOptions {
  readonly store: Pick<RecordStore, 'addRecord' | 'replaceRecord' | 'records'>
  readonly clock: Pick<Clock, 'now'>
  /** What this gateway sees. */
  incidents(): Promise<Pick<NodeIncidents, 'list'>>
}

/** Each gateway reports into the store what it sees: so an incident is one for all of them, and has ended when none sees it any more. */
export class SharedIncidents {
  readonly #options: SharedIncidentsOptions
  #reportedAt: number
  /** Since when each report has reached the store. Before, others may have seen what they could not report either. */
  #reportsSince: number
  #hasFailed = false

  constructor(options: SharedIncidentsOptions) {
    this.#options = options
    this.#reportedAt = options.clock.now()
    this.#reportsSince = this.#reportedAt
  }

  /** What this gateway sees; and what began and ended since it reported last, as while the store was unreachable. */
  async report(): Promise<void> {
    const { store, clock } = this.#options
    const incidents = (await this.#options.incidents()).list()
    const now = clock.now()
    if (this.#hasFailed || Math.abs(now - this.#reportedAt) > endedAfterMs) this.#reportsSince = now
    this.#hasFailed = true
    // Also where there is nothing to report: that it can be reported is known then.
    const reported = new Map((await this.#records(now)).map(record => [record.id, record]))
    for (const { network, node = null, kind, class: methodClass, text, severity, began, ended } of incidents) {
      // Reports are kept in the store: its outage would be told when it is over.
      if (network === undefined || severity === 'info') continue
      const seen = ended ?? now
      // Reported before; after now is what ended before the clock went back.
      if (seen < Math.min(this.#reportedAt, now) || seen > now) continue
      const id = recordIdOf({ network, node, kind, class: methodClass })
      const value: IncidentRecord = { network, node, kind, class: methodClass, severity, text, began: isoTime(began), seen }
      const found = reported.get(id)
      if (found === undefined) {
        // Where another gateway is quicker, it has seen the same.
        await store.addRecord('incident', { id, account: operatorsId, value: toJson(value), expires: neverExpires })
        continue
      }
      const known = recordOf(found)
      if (known.hasEnded === true) {
        if (seen > known.seen) await store.replaceRecord('incident', found, toJson(beginAgain(value, known)), neverExpires)
      } else if (seen >= known.seen + (ended === undefined ? renewIntervalMs : 1))
        await store.replaceRecord('incident', found, toJson({ ...known, severity, seen }))
    }
    this.#reportedAt = now
    this.#hasFailed = false
  }

  /** What the store has. Where the clock went back, what was seen by its former time counts as seen now. */
  async #records(now: number): Promise<readonly StoredRecord[]> {
    const { store } = this.#options
    const records = await store.records('incident', operatorsId)
    const future = records.filter(record => recordOf(record).seen > now + endedAfterMs)
    if (future.length === 0) return records
    for (const record of future) await store.replaceRecord('incident', record, toJson({ ...recordOf(record), seen: now }), record.expires)
    return store.records('incident', operatorsId)
  }

  /** Those that last, and those that have ended within a day. */
  async list(): Promise<readonly SharedIncident[]> {
    const { store, clock } = this.#options
    const now = clock.now()
    return (await store.records('incident', operatorsId)).map(record => {
      const { hasEnded = false, acknowledged, ...incident } = recordOf(record)
      const isOver = hasEnded || now >= Math.max(incident.seen, this.#reportsSince) + endedAfterMs
      return { ...incident, ended: isOver ? isoTime(incident.seen) : null, hasEnded, acknowledged, record }
    })
  }

  /** Once this gateway has told of its end whom it can. */
  async end({ record }: SharedIncident): Promise<void> {
    const { store, clock } = this.#options
    const value: IncidentRecord = { ...recordOf(record), hasEnded: true }
    // Not where a gateway has just seen it again.
    await store.replaceRecord('incident', record, toJson(value), clock.now() + endedRetentionMs)
  }
}

type IncidentName = Pick<OperatorAlert['data'], 'network' | 'node' | 'kind' | 'class'>

/** There is one of each at a time. */
const recordIdOf = ({ network, node, kind, class: methodClass }: IncidentName): string =>
  [operatorsId, network, node, kind, methodClass].join(' ')

/** The incidents of a node; without one, those of a network and of its nodes. */
export interface AcknowledgedSubject {
  readonly network: string
  readonly node?: string | undefined
}

export const isOfSubject = (
  incident: { readonly network: string | null; readonly node: string | null },
  { network, node }: AcknowledgedSubject,
): boolean => incident.network === network && (node === undefined || incident.node === node)

type AcknowledgmentStore = Pick<RecordStore, 'addRecord' | 'replaceRecord' | 'findRecord' | 'records'>

interface AcknowledgmentServices {
  readonly store: AcknowledgmentStore
  readonly clock: Pick<Clock, 'now'>
}

/** Of those that last at any gateway, and those that this one sees: what it has not reported yet is in the store from then on. Returns how many. */
export const acknowledgeIncidents = async (
  { store, clock }: AcknowledgmentServices,
  subject: AcknowledgedSubject,
  seen: readonly Omit<OperatorAlert['data'], 'ended'>[],
  acknowledged: Acknowledgment,
): Promise<number> => {
  const now = clock.now()
  const lasting = (await store.records('incident', operatorsId))
    .map(recordOf)
    .filter(each => isOfSubject(each, subject) && lasts(each, now))
  const incidents = new Map([...lasting, ...seen.map(each => ({ ...each, seen: now }))].map(each => [recordIdOf(each), each]))
  for (const [id, incident] of incidents)
    await changeIncident(store, id, known => {
      if (known === undefined) return { ...incident, acknowledged }
      if (known.hasEnded === true) return { ...beginAgain(incident, known), acknowledged }
      // Whoever acknowledges a network does not take over its nodes.
      const kept = subject.node === undefined && known.node !== null ? known.acknowledged : undefined
      return { ...known, seen: Math.max(known.seen, incident.seen), acknowledged: kept ?? acknowledged }
    })
  return incidents.size
}

/** Returns of how many. */
export const unacknowledgeIncidents = async (
  { store }: Pick<AcknowledgmentServices, 'store'>,
  subject: AcknowledgedSubject,
): Promise<number> => {
  const acknowledged = (await store.records('incident', operatorsId)).filter(record => {
    const known = recordOf(record)
    return known.acknowledged !== undefined && isOfSubject(known, subject) && known.hasEnded !== true
  })
  for (const { id } of acknowledged)
    await changeIncident(store, id, known =>
      known === undefined || known.hasEnded === true ? undefined : { ...known, acknowledged: undefined },
    )
  return acknowledged.length
}

/** Of an incident that lasts; undefined for one that nobody has acknowledged. */
export const readAcknowledgments = async (
  store: Pick<RecordStore, 'records'>,
): Promise<(incident: IncidentName) => Acknowledgment | undefined> => {
  const records = (await store.records('incident', operatorsId)).map(recordOf).filter(({ hasEnded }) => hasEnded !== true)
  const byId = new Map(records.map(each => [recordIdOf(each), each.acknowledged]))
  return incident => byId.get(recordIdOf(incident))
}

/** It was told that it has ended: an incident that began before is a new one where a gateway has seen it since. */
const beginAgain = (incident: IncidentRecord, known: IncidentRecord): IncidentRecord => ({
  ...incident,
  began: Date.parse(incident.began) > known.seen ? incident.began : isoTime(incident.seen),
})

const lasts = ({ hasEnded, seen }: IncidentRecord, now: number): boolean => hasEnded !== true && now < seen + endedAfterMs

/** Gateways may report it meanwhile. */
const changeIncident = async (
  store: AcknowledgmentStore,
  id: string,
  change: (known: IncidentRecord | undefined) => IncidentRecord | undefined,
): Promise<void> => {
  for (let isDone = false; !isDone; ) {
    const found = await store.findRecord('incident', id)
    const changed = change(found && recordOf(found))
    if (changed === undefined) return
    const value = toJson(changed)
    isDone =
      found === undefined
        ? await store.addRecord('incident', { id, account: operatorsId, value, expires: neverExpires })
        : await store.replaceRecord('incident', found, value, neverExpires)
  }
}

interface IncidentRecord extends Omit<OperatorAlert['data'], 'ended'> {
  /** In ms since 1970, when a gateway has seen it last. */
  readonly seen: number
  readonly hasEnded?: true
  readonly acknowledged?: Acknowledgment | undefined
}

/** Written above alone. */
const recordOf = ({ value }: StoredRecord): IncidentRecord => value as unknown as IncidentRecord
