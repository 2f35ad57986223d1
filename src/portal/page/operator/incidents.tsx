import { useEffect, useRef } from 'preact/hooks'
import { allClasses } from '../../../services/node-reasons.ts'
import type { IncidentJson, IncidentsJson } from '../../operations/incident-schemas.ts'
import { nameOfKind } from '../../state-labels.ts'
import { now } from '../clock.ts'
import { Badge } from '../components/badge.tsx'
import { WhenLoaded } from '../components/controls.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { Table } from '../components/table.tsx'
import { TextWithCode } from '../components/text-with-code.tsx'
import { formatAgeSince, formatAuthor, formatMoment, formatNumber } from '../format.ts'
import { useRequest } from '../request.ts'
import { queryMember } from '../router.ts'
import { NetworkLink, NodeLink } from './links.tsx'
import { nameClass, useNodes } from './node-state.tsx'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.incidents

/** Where fewer last. */
const usuallyShown = 8
const maxShown = 50

/** All that last, as the breaker of each node of a network, and before them the newest. */
const countShown = (incidents: readonly IncidentJson[]): number => {
  const ongoing = incidents.filter(({ ended }) => ended === null).length
  return Math.min(maxShown, Math.max(usuallyShown, ongoing))
}

/** What has kept calls from nodes: of one network, or of all, and outages of the store. */
export const Incidents = ({ network }: { readonly network?: string }) => {
  const shownAll = queryMember('incidents')
  const query = network === undefined ? '' : `?${new URLSearchParams({ network })}`
  const found = useRequest<IncidentsJson>(`/overview/incidents${query}`, Infinity)
  useReadAfter(useNodes().data.value, found.reload)
  return (
    <WhenLoaded from={found} skeleton={<Skeleton height={6} />}>
      {({ incidents }) =>
        incidents.length === 0 ? (
          <p class="lead">{text.none}</p>
        ) : (
          <>
            <IncidentTable
              incidents={shownAll.value === 'all' ? incidents : incidents.slice(0, countShown(incidents))}
              hasNetworks={network === undefined}
            />
            {incidents.length > countShown(incidents) && (
              <button type="button" class="quiet" onClick={() => shownAll.set(shownAll.value === 'all' ? '' : 'all')}>
                {shownAll.value === 'all' ? text.fewer : `${text.more} (${formatNumber(incidents.length - countShown(incidents))})`}
              </button>
            )}
          </>
        )
      }
    </WhenLoaded>
  )
}

/** Reads again what follows from something, whenever the page has that anew: the first time, both are just being read. */
const useReadAfter = (source: unknown, read: () => void): void => {
  const last = useRef(source)
  useEffect(() => {
    if (last.current !== undefined && last.current !== source) read()
    last.current = source
  }, [source])
}

const IncidentTable = ({ incidents, hasNetworks }: { readonly incidents: readonly IncidentJson[]; readonly hasNetworks: boolean }) => (
  <Table
    caption={text.title}
    keyOf={({ network, node, kind, class: methodClass, began }) => [network, node, kind, methodClass, began].join()}
    rows={incidents}
    columns={[
      { title: text.began, isTime: true, cell: ({ began }) => formatMoment(began, now.value) },
      { title: text.lasted, cell: incident => <Duration incident={incident} /> },
      {
        title: text.where,
        cell: ({ network, node }) =>
          network === null ? (
            operatorTexts.home.gateway
          ) : node === null ? (
            <NetworkLink name={network} />
          ) : (
            <NodeLink network={network} node={node} isShort={!hasNetworks} />
          ),
      },
      {
        title: text.what,
        cell: ({ kind, class: methodClass, text: why, acknowledged }) => (
          <>
            {nameOfKind(kind)}
            {methodClass !== allClasses && ` (${nameClass(methodClass)})`}
            <p class="help sentence">
              <TextWithCode text={why} />
            </p>
            <Acknowledged of={acknowledged} />
          </>
        ),
      },
    ]}
  />
)

/** `alice (operator) is on it since 14:05:09: OPS-41`. */
export const Acknowledged = ({ of }: { readonly of: IncidentJson['acknowledged'] }) =>
  of && (
    <p class="help">
      {formatAuthor(of.by)} {operatorTexts.home.isOnIt} {formatMoment(of.at, now.value)}
      {of.note !== null && `: ${of.note}`}
    </p>
  )

const Duration = ({ incident: { severity, began, ended, times } }: { readonly incident: IncidentJson }) => (
  <>
    <span class="one-line">{formatAgeSince(began, ended === null ? now.value : Date.parse(ended))}</span>{' '}
    {ended === null && <Badge tone={severity === 'info' ? 'neutral' : 'danger'}>{text.lasts}</Badge>}
    {times > 1 && <span class="since"> {`${formatNumber(times)} ${text.times}`}</span>}
  </>
)
