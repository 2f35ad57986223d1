import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import type { NetworkStatusJson } from '../../routes/networks.ts'
import { Badge } from '../components/badge.tsx'
import type { Tone } from '../components/badge.tsx'
import { Banner } from '../components/banner.tsx'
import { SearchField } from '../components/controls.tsx'
import { EmptyState } from '../components/empty-state.tsx'
import { formatNumber } from '../format.ts'
import { texts } from '../texts.ts'

const text = texts.networks

const tones: Readonly<Record<NetworkStatusJson['state'], Tone>> = { ok: 'ok', degraded: 'warn', down: 'danger', unknown: 'neutral' }

export const StateBadge = ({ state }: Pick<NetworkStatusJson, 'state'>) => <Badge tone={tones[state]}>{text.states[state]}</Badge>

/** How all networks are, in one line. */
export const NetworksSummary = ({ networks }: { readonly networks: readonly NetworkStatusJson[] }) => {
  const namesIn = (...states: readonly NetworkStatusJson['state'][]) =>
    networks.filter(({ state }) => states.includes(state)).map(({ name }) => name)
  const [down, degraded] = [namesIn('down'), namesIn('degraded')]
  if (down.length > 0) {
    return (
      <Banner tone="danger" title={text.someDown}>
        {down.join(', ')}
      </Banner>
    )
  }
  if (degraded.length > 0) {
    return (
      <Banner tone="warn" title={text.someDegraded}>
        {degraded.join(', ')}
      </Banner>
    )
  }
  return <Banner tone="ok" title={text.allOk} />
}

/** With so many networks, one looks for a name. */
const minSearched = 8

interface NetworkListProps<Network extends NetworkStatusJson> {
  readonly networks: readonly Network[]
  /** What else is shown of a network. */
  detailsOf?(network: Network): ComponentChildren
}

export const NetworkList = <Network extends NetworkStatusJson>({ networks, detailsOf }: NetworkListProps<Network>) => {
  const search = useSignal('')
  const found = networks.filter(({ name, chainId }) => `${name} ${chainId}`.includes(search.value.trim().toLowerCase()))
  return (
    <>
      {networks.length >= minSearched && (
        <div class="controls">
          <SearchField label={text.search} value={search.value} onInput={value => (search.value = value)} />
        </div>
      )}
      {found.length === 0 && <EmptyState icon="search" title={texts.nothingFound} />}
      {found.map(network => (
        <section key={network.name} class="card network" aria-label={network.name}>
          <div class="heading">
            <h2>{network.name}</h2>
            <StateBadge state={network.state} />
          </div>
          <dl class="facts">
            {factsOf(network).map(([label, value]) => (
              <div key={label}>
                <dt>{label}</dt>
                <dd>{value}</dd>
              </div>
            ))}
          </dl>
          {detailsOf?.(network)}
        </section>
      ))}
    </>
  )
}

const factsOf = ({ chainId, head, finalized, lagBlocks, nodes, usableNodes }: NetworkStatusJson) =>
  [
    [text.head, head === null ? text.notYet : formatNumber(head)],
    [text.finalized, formatNumber(finalized)],
    [text.lag, lagBlocks === null ? '–' : lagBlocks === 0 ? text.noLag : `${formatNumber(lagBlocks)} ${text.blocks}`],
    [text.nodes, nodes === 0 ? '–' : `${usableNodes} ${texts.of} ${nodes}`],
    // As a wallet asks for it: without commas.
    [text.chainId, String(chainId)],
  ] as const
