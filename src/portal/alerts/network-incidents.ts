import { nodeReasons } from '../../services/node-reasons.ts'
import type { IncidentLog } from '../portal-services.ts'
import { isOutageKind } from './network-outages.ts'
import { outagesOfLastDay } from './outage-days.ts'
import type { RecordedDay, SeenOutage } from './outage-days.ts'

// What the callers of a network are told of its last day. Nodes are the operator's: of them it is said alone that there were fewer, or slow ones.

type LoggedIncident = ReturnType<IncidentLog['list']>[number]

/** Outages, and times in which calls had fewer nodes than usual (`nodes`), or some took far longer than others (`slow`). */
export interface NetworkIncident {
  readonly state: SeenOutage['kind'] | 'degraded'
  /** Null: see the state. */
  readonly because: DegradedBecause | null
  readonly began: number
  /** Undefined while it lasts. */
  readonly ended: number | undefined
}

export const degradedBecause = ['nodes', 'slow'] as const

type DegradedBecause = (typeof degradedBecause)[number]

/** Of each kind; whoever is shown more has the log of incidents of operators. */
const maxIncidents = 10

/** What nobody noticed longer than this is no time in which calls had anything: a look at the nodes takes place every 5 s. */
const minDegradedMs = 5_000

/** Those of the network as a whole, as far as this gateway has seen them. */
export const seenOutages = (incidents: readonly LoggedIncident[]): readonly SeenOutage[] =>
  incidents.flatMap(({ node, kind, began, ended }) => (node === undefined && isOutageKind(kind) ? [{ kind, began, ended }] : []))

/** The newest first. */
export const networkIncidents = (
  recorded: readonly RecordedDay[],
  incidents: readonly LoggedIncident[],
  now: number,
): readonly NetworkIncident[] => {
  const outages = outagesOfLastDay(recorded, seenOutages(incidents), now)
  const down = outages.filter(({ kind }) => kind === 'down')
  const degraded = degradedBecause.flatMap(because =>
    degradedTimes(
      incidents.filter(incident => becauseOf(incident) === because),
      down,
    ).map(time => ({ state: 'degraded' as const, because, ...time })),
  )
  const newest = <T extends Span>(found: readonly T[]): readonly T[] => found.toSorted((a, b) => b.began - a.began).slice(0, maxIncidents)
  return [...newest(outages).map(({ kind: state, ...time }) => ({ state, because: null, ...time })), ...newest(degraded)].sort(
    (a, b) => b.began - a.began,
  )
}

/** What a node had, as callers may have noticed it; undefined where they could not, and for what is none of a node. */
const becauseOf = ({ node, kind }: LoggedIncident): DegradedBecause | undefined => {
  if (node === undefined) return undefined
  if (kind === 'slow' || kind === 'suspect') return 'slow'
  return kind === 'notUsable' || keepsAway(kind) ? 'nodes' : undefined
}

const keepsAway = (kind: string): boolean => Object.entries(nodeReasons).some(([reason, each]) => reason === kind && each.keepsAway)

type Span = Pick<NetworkIncident, 'began' | 'ended'>

const endOf = ({ ended = Infinity }: Span): number => ended

/** What several nodes had is one time; while the network is down, that is said instead. */
const degradedTimes = (incidents: readonly LoggedIncident[], outages: readonly Span[]): readonly Span[] => {
  const joined: { began: number; ended: number }[] = []
  for (const each of incidents.toSorted((a, b) => a.began - b.began)) {
    const last = joined.at(-1)
    if (last !== undefined && each.began <= last.ended) last.ended = Math.max(last.ended, endOf(each))
    else joined.push({ began: each.began, ended: endOf(each) })
  }
  return joined
    .flatMap(time =>
      outages.reduce<readonly Required<typeof time>[]>((parts, outage) => parts.flatMap(part => without(part, outage)), [time]),
    )
    .filter(({ began, ended }) => ended - began >= minDegradedMs)
    .map(({ began, ended }) => ({ began, ended: ended === Infinity ? undefined : ended }))
}

const without = ({ began, ended }: { readonly began: number; readonly ended: number }, outage: Span) =>
  [
    { began, ended: Math.min(ended, outage.began) },
    { began: Math.max(began, endOf(outage)), ended },
  ].filter(part => part.began < part.ended)
