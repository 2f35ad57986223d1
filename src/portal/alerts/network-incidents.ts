import { nodeReasons } from '../../services/node-reasons.ts'
import type { NodeIncidents } from '../operator/node-incidents.ts'
import { isOutageKind } from './network-outages.ts'
import { joinTimes } from '../../util/time-spans.ts'
import type { TimeSpan } from '../../util/time-spans.ts'
import { outagesOfLastDay } from './outage-days.ts'
import type { RecordedDay, SeenOutage } from './outage-days.ts'

// What the callers of a network are told of its last day. Nodes are the operator's: of them it is said alone that there were fewer, or slow ones.

type LoggedIncident = ReturnType<NodeIncidents['list']>[number]

/** Outages, and times in which calls had fewer nodes than usual (`nodes`), or some took far longer than others (`slow`). */
interface NetworkIncident extends TimeSpan {
  readonly state: SeenOutage['kind'] | 'degraded'
  /** Null: see the state. */
  readonly because: DegradedBecause | null
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

/** The newest first. What partners had is none, and what a node had while it was drained: callers are not told of them. */
export const networkIncidents = (
  recorded: readonly RecordedDay[],
  incidents: readonly LoggedIncident[],
  partners: ReadonlySet<string>,
  now: number,
): readonly NetworkIncident[] => {
  const outages = outagesOfLastDay(recorded, seenOutages(incidents), now)
  const down = outages.filter(({ kind }) => kind === 'down')
  const ofNodes = incidents.filter(({ node }) => !partners.has(node ?? ''))
  const drained = ofNodes.filter(({ kind }) => kind === 'drained')
  const degraded = degradedBecause.flatMap(because =>
    degradedTimes(
      ofNodes
        .filter(each => becauseOf(each) === because)
        .flatMap(each =>
          outsideOf(
            each,
            drained.filter(({ node }) => node === each.node),
          ),
        ),
      down,
    ).map(time => ({ state: 'degraded' as const, because, ...time })),
  )
  const newest = <T extends TimeSpan>(found: readonly T[]): readonly T[] =>
    found.toSorted((a, b) => b.began - a.began).slice(0, maxIncidents)
  return [...newest(outages).map(({ kind: state, ...time }) => ({ state, because: null, ...time })), ...newest(degraded)].sort(
    (a, b) => b.began - a.began,
  )
}

/** What a node had, as callers may have noticed it; undefined where they could not, and for what is none of a node. */
const becauseOf = ({ node, kind }: LoggedIncident): DegradedBecause | undefined => {
  if (node === undefined) return undefined
  if (kind === 'slow' || kind === 'suspect') return 'slow'
  return kind !== 'drained' && (kind === 'notUsable' || keepsAway(kind)) ? 'nodes' : undefined
}

const keepsAway = (kind: string): boolean => Object.entries(nodeReasons).some(([reason, each]) => reason === kind && each.keepsAway)

const endOf = ({ ended = Infinity }: TimeSpan): number => ended

/** What several nodes had is one time; while the network is down, that is said instead. */
const degradedTimes = (incidents: readonly TimeSpan[], outages: readonly TimeSpan[]): readonly TimeSpan[] =>
  joinTimes(incidents)
    .flatMap(time => outsideOf(time, outages))
    .filter(time => endOf(time) - time.began >= minDegradedMs)

const outsideOf = (time: TimeSpan, others: readonly TimeSpan[]): readonly TimeSpan[] =>
  others.reduce<readonly TimeSpan[]>((parts, other) => parts.flatMap(part => without(part, other)), [time])

const without = ({ began, ended }: TimeSpan, outage: TimeSpan): readonly TimeSpan[] =>
  [
    { began, ended: Math.min(endOf({ began, ended }), outage.began) },
    { began: Math.max(began, endOf(outage)), ended },
  ].filter(part => part.began < endOf(part))
