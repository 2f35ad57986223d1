import { neverExpires } from '../../store/record-store.ts'
import type { RecordStore } from '../../store/record-store.ts'
import type { AccountRow, Store } from '../../store/store.ts'
import { usagePeriodsMs } from '../../store/usage-store.ts'
import type { Clock } from '../../services/clock.ts'
import { dayMs, isoTime } from '../../util/dates.ts'
import { UsageAdder } from '../../services/usage/usage-adder.ts'
import { hasReceiver } from './alert-settings.ts'
import type { AlertSettings, RateRule } from './alert-settings.ts'
import { incidentTypes } from './delivery-records.ts'
import type { IncidentAlert, IncidentType } from './delivery-records.ts'

/** Calls of an account fail, or are slow. There is one of each type at most, until it has ended. */
export interface Incident extends Omit<IncidentAlert, 'account'> {
  readonly type: IncidentType
}

/** An incident ends below this share of the threshold: a figure that swings around the threshold is one incident. */
const endShare = 0.8

/** Nobody is told of an incident that is older, such as a receiver that was set later. */
const maxToldAgeMs = dayMs

const minuteMs = 60_000

interface IncidentServices {
  readonly store: Pick<Store, 'usageRows' | 'records' | 'addRecord' | 'takeRecord'>
  readonly clock: Pick<Clock, 'now'>
}

/** Begins and ends the incidents of the account by its calls up to now. Those of which receivers may be told. */
export const updateIncidents = async (
  { store, clock }: IncidentServices,
  { id: account }: Pick<AccountRow, 'id'>,
  rule: RateRule,
): Promise<readonly Incident[]> => {
  if (rule.errorRate === 0 && rule.latency === 0) return []
  const before = await listIncidents(store, account)
  const now = clock.now()
  const measured = await measure(store, account, rule, now)
  const found = await Promise.all(
    incidentTypes.map(async type => {
      const incident = before.find(each => each.type === type)
      const { threshold, value, calls } = measured[type]
      if (incident !== undefined) {
        if (threshold > 0 && value >= endShare * threshold) return incident
        await endIncident(store, account, type)
      } else if (threshold > 0 && value >= threshold && calls >= rule.minCalls) {
        const begun: Incident = { type, since: isoTime(now), window: rule.window, calls, value, threshold }
        // Another gateway may be quicker: the next round finds what it has stored.
        if (await store.addRecord('incident', { id: idOf(account, type), account, value: { ...begun }, expires: neverExpires }))
          return begun
      }
      return undefined
    }),
  )
  return found.filter(incident => incident !== undefined).filter(({ since }) => now - Date.parse(since) < maxToldAgeMs)
}

const endIncident = async (store: Pick<RecordStore, 'takeRecord'>, account: string, type: IncidentType): Promise<void> => {
  await store.takeRecord('incident', idOf(account, type))
}

/** 0: no incident begins or ends. */
const thresholdOf = (settings: AlertSettings, type: IncidentType): number =>
  !hasReceiver(settings) ? 0 : type === 'errors.threshold' ? settings.errorRate : settings.latency

/** Another threshold begins anew, and so does the first receiver: before, nobody looked whether it had ended. */
export const endChangedIncidents = async (
  store: Pick<RecordStore, 'takeRecord'>,
  { before, after }: { readonly before: AlertSettings; readonly after: AlertSettings },
): Promise<void> => {
  for (const type of incidentTypes)
    if (thresholdOf(before, type) !== thresholdOf(after, type)) await endIncident(store, after.account, type)
}

/** Those that have not ended. */
const listIncidents = async (store: Pick<RecordStore, 'records'>, account: string): Promise<readonly Incident[]> =>
  (await store.records('incident', account)).map(({ value }) => value as unknown as Incident) // written above alone

/** Those that last, by these settings: a round that was under way when they were changed may have begun another. */
export const lastingIncidents = async (store: Pick<RecordStore, 'records'>, settings: AlertSettings): Promise<readonly Incident[]> =>
  (await listIncidents(store, settings.account)).filter(({ type }) => thresholdOf(settings, type) > 0)

const idOf = (account: string, type: IncidentType): string => `${account} ${type}`

/** The calls of the window, and of the rest of the five minutes in which it begins. */
const measure = async (
  store: IncidentServices['store'],
  account: string,
  { window, errorRate, latency }: RateRule,
  now: number,
): Promise<Readonly<Record<IncidentType, Pick<Incident, 'calls' | 'value' | 'threshold'>>>> => {
  const periodOf = (time: number): number => Math.floor(time / usagePeriodsMs.fiveMinutes)
  const sum = new UsageAdder()
  for (const { rows } of await store.usageRows(account, 'fiveMinutes', periodOf(now - window * minuteMs), periodOf(now) + 1))
    for (const row of rows) sum.add(row.group, row)
  const { calls, failed, p95Ms } = sum.statistics
  return {
    'errors.threshold': { calls, value: calls > 0 ? Number(((100 * failed) / calls).toPrecision(3)) : 0, threshold: errorRate },
    'latency.threshold': { calls: calls - failed, value: p95Ms ?? 0, threshold: latency },
  }
}
