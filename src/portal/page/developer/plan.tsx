import { useSignal } from '@preact/signals'
import type { PortalMethod } from '../../portal-services.ts'
import type { NetworkJson } from '../../routes/networks.ts'
import { Notice, SearchField, Select, WhenLoaded } from '../components/controls.tsx'
import { EmptyState } from '../components/empty-state.tsx'
import { Figure } from '../components/figure.tsx'
import { ContactSupport } from '../components/shell.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { Table } from '../components/table.tsx'
import { Segments } from '../components/tabs.tsx'
import { formatNumber } from '../format.ts'
import { useRequest } from '../request.ts'
import { texts } from '../texts.ts'
import { account } from './developer-session.ts'
import { summaryOf } from './method-summaries.ts'
import { usePreferredNetwork } from './preferred-network.ts'

const text = texts.plan

export const Plan = () => {
  const networks = useRequest<readonly NetworkJson[]>('/networks')
  const chosen = useSignal<string | undefined>(undefined)
  const preferred = usePreferredNetwork()
  const names = networks.data.value?.map(({ name }) => name) ?? []
  const network = names.find(name => name === chosen.value) ?? preferred(networks.data.value)?.name
  return (
    <>
      <OwnPlan />
      <p>
        {text.needMore} <ContactSupport />
      </p>
      <h2>{text.prices}</h2>
      <Notice text={networks.error.value} />
      {network === undefined ? (
        networks.error.value === undefined && <Skeleton />
      ) : (
        <Prices key={network} names={names} network={network} onChoose={name => (chosen.value = name)} />
      )}
    </>
  )
}

const OwnPlan = () => {
  const plan = account.value?.plan
  if (plan === undefined) return <Skeleton height={5.5} />
  return (
    <div class="card cards">
      <Figure label={texts.overview.plan} value={plan.name} />
      <Figure label={texts.overview.perDayTitle} value={formatNumber(plan.dailyCredits)} note={text.resets} />
      <Figure
        label={text.forwarding}
        value={plan.forwarding ? text.included : text.notIncluded}
        note={plan.forwarding ? text.forwardingHelp : text.noForwardingHelp}
      />
      {plan.rate !== null && (
        <Figure
          label={texts.keys.rate}
          value={`${formatNumber(plan.rate)} ${text.perSecond}`}
          note={plan.burst === null ? text.rateHelp : `${text.burst} ${formatNumber(plan.burst)}. ${text.rateHelp}`}
        />
      )}
    </div>
  )
}

const orders = (['name', 'price'] as const).map(value => ({ value, label: text.orders[value] }))

interface PricesProps {
  readonly names: readonly string[]
  readonly network: string
  onChoose(network: string): void
}

const Prices = ({ names, network, onChoose }: PricesProps) => {
  const methods = useRequest<readonly PortalMethod[]>(`/networks/${network}/methods`)
  const search = useSignal('')
  const order = useSignal<'name' | 'price'>('name')
  const typed = search.value.trim().toLowerCase()
  const matches = ({ name }: PortalMethod) => `${name} ${summaryOf(name)}`.toLowerCase().includes(typed)
  const compare = (a: PortalMethod, b: PortalMethod): number =>
    (order.value === 'price' ? b.credits - a.credits : 0) || a.name.localeCompare(b.name)
  return (
    <>
      <div class="controls">
        {names.length > 1 && <Select label={text.network} options={names} value={network} onChange={onChoose} />}
        <SearchField label={text.search} value={search.value} onInput={value => (search.value = value)} />
        <Segments label={text.order} options={orders} value={order.value} onChange={value => (order.value = value)} />
      </div>
      <WhenLoaded from={methods} skeleton={<Skeleton lines={12} />}>
        {found => {
          const shown = found.filter(matches).toSorted(compare)
          const isVerified = found.some(({ verification }) => verification !== undefined)
          return shown.length === 0 ? (
            <EmptyState icon="search" title={texts.nothingFound} />
          ) : (
            <Table
              caption={text.prices}
              keyOf={row => row.name}
              rows={shown}
              columns={[
                {
                  title: text.method,
                  cell: ({ name }) => (
                    <>
                      <code>{name}</code>
                      <p class="help">{summaryOf(name)}</p>
                    </>
                  ),
                },
                ...(isVerified ? [{ title: text.verification, cell: (row: PortalMethod) => row.verification ?? text.notVerified }] : []),
                { title: text.credits, isNumber: true, cell: row => <Credits method={row} /> },
                {
                  title: text.perDay,
                  isNumber: true,
                  cell: ({ credits }) => formatNumber(callsPerDay(credits)),
                },
              ]}
            />
          )
        }}
      </WhenLoaded>
    </>
  )
}

/** What a call costs, what it costs with the header Tollgate-Verify where that is not the same, and what events of logs cost. */
const Credits = ({ method: { credits, verifyCredits, eventCredits } }: { readonly method: PortalMethod }) => (
  <>
    {formatNumber(credits)}
    {eventCredits?.['logs'] !== undefined && (
      <p class="help">
        {formatNumber(eventCredits['logs'])} {text.perKiBOfLogs}
      </p>
    )}
    {Object.entries(verifyCredits ?? {})
      .filter(([, asked]) => asked !== credits)
      .map(([wish, asked]) => (
        <p key={wish} class="help">
          {formatNumber(asked)} <code>Tollgate-Verify: {wish}</code>
        </p>
      ))}
  </>
)

/** How many calls the credits of a day are. */
const callsPerDay = (credits: number): number | null => {
  const dailyCredits = account.value?.plan.dailyCredits ?? null
  return dailyCredits === null || credits === 0 ? null : Math.floor(dailyCredits / credits)
}
