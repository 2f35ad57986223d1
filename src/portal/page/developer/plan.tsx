import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import type { PortalMethod } from '../../portal-services.ts'
import type { AccountReport, PlanJson } from '../../routes/account.ts'
import type { NetworkJson, RateLimitsJson } from '../../routes/networks.ts'
import { brand } from '../brand.ts'
import { Badge } from '../components/badge.tsx'
import { Notice, SearchField, Select, WhenLoaded } from '../components/controls.tsx'
import { EmptyState } from '../components/empty-state.tsx'
import { Figure } from '../components/figure.tsx'
import { ContactSupport, ExternalLink } from '../components/shell.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { Table } from '../components/table.tsx'
import { Segments } from '../components/tabs.tsx'
import { formatNumber, formatRefusal } from '../format.ts'
import { useRequest } from '../request.ts'
import { accountTexts } from './account-texts.ts'
import { developerTexts } from './developer-texts.ts'
import { account } from './developer-session.ts'
import { describeLimits, summaryOf } from './method-summaries.ts'
import { usePreferredNetwork } from './preferred-network.ts'
import { namesWithoutRates } from './rate-limits.ts'

const text = accountTexts.plan

export const Plan = () => {
  const networks = useRequest<readonly NetworkJson[]>('/networks')
  const chosen = useSignal<string | undefined>(undefined)
  const preferred = usePreferredNetwork()
  const names = networks.data.value?.map(({ name }) => name) ?? []
  const network = names.find(name => name === chosen.value) ?? preferred(networks.data.value)?.name
  return (
    <>
      <Plans networks={networks.data.value ?? []} />
      <h2>{text.prices}</h2>
      <Notice text={networks.error.value} />
      {network === undefined ? (
        networks.error.value === undefined && <Skeleton />
      ) : (
        <Prices key={network} names={names} network={network} onChoose={name => (chosen.value = name)}>
          <NetworkRates network={networks.data.value?.find(({ name }) => name === network)} />
        </Prices>
      )}
    </>
  )
}

interface PlansProps {
  readonly networks: readonly NetworkJson[]
}

const Plans = ({ networks }: PlansProps) => {
  const current = account.value
  if (current === undefined) return <Skeleton height={5.5} />
  return (
    <>
      {current.plan.rate !== null && namesWithoutRates(networks).length > 0 && (
        <p class="lead">
          {text.ratesNotEnforced} {namesWithoutRates(networks).join(', ')}.
        </p>
      )}
      <OwnPlan account={current} networks={networks} />
      {current.billingUrl !== null && (
        <p>
          <ExternalLink href={current.billingUrl}>{text.invoices}</ExternalLink>
        </p>
      )}
      {current.offeredPlans.length > 0 ? (
        <PlanComparison account={current} networks={networks} />
      ) : (
        <p>
          {text.needMore} <ContactSupport />
        </p>
      )}
    </>
  )
}

interface PlanProps extends PlansProps {
  readonly account: AccountReport
}

const OwnPlan = ({ account: { plan, hasOwnCredits, refusals }, networks }: PlanProps) => (
  <div class="card figures">
    <Figure label={text.yourPlan} value={plan.name} note={plan.price ?? undefined} />
    <Figure
      label={developerTexts.overview.perDayTitle}
      value={formatNumber(plan.dailyCredits)}
      note={`${hasOwnCredits ? `${developerTexts.overview.setForYou}; ` : ''}${text.resets}`}
    />
    <Figure
      label={text.forwarding}
      value={formatForwarding(plan)}
      note={plan.forwarding ? `${text.whichForwarded} (${formatRefusal(refusals.unavailable)})` : formatRefusal(refusals.unavailable)}
    />
    <Figure label={developerTexts.keys.rate} value={formatRate(plan, networks)} note={describeRate(plan, networks)} />
  </div>
)

const formatForwarding = ({ forwarding }: PlanJson): string => (forwarding ? text.forwarded : text.notForwarded)

/** That of the plan, where there is a network that applies it; without one, networks may have limits of their own. */
const formatRate = ({ rate }: PlanJson, networks: readonly NetworkJson[]): string => {
  const limits = networks.flatMap(({ rateLimits }) => rateLimits ?? [])
  if (rate !== null && limits.length > 0) return formatPerSecond(rate)
  return limits.some(isLimit) ? text.byNetwork : developerTexts.keys.noLimit
}

const formatPerSecond = (rate: number): string => `${formatNumber(rate)} ${text.perSecond}`

const isLimit = ({ accountRate, accountCreditRate, keyRate, ipRate }: RateLimitsJson): boolean =>
  [accountRate, accountCreditRate, keyRate, ipRate].some(rate => rate !== null)

const describeRate = ({ rate, burst }: PlanJson, networks: readonly NetworkJson[]): string => {
  const others = namesWithoutRates(networks)
  if (others.length === networks.length) return networks.length === 0 ? '' : text.noneLimits
  if (rate === null)
    return networks.some(({ rateLimits }) => rateLimits !== null && isLimit(rateLimits)) ? text.byNetworkHelp : text.keysMay
  return `${formatBurst({ burst })}${text.allTogether}${others.length === 0 ? '' : `, ${developerTexts.keys.notOn} ${others.join(', ')}`}. ${text.keysMay}`
}

const formatBurst = ({ burst }: Pick<PlanJson, 'burst'>): string => (burst === null ? '' : `${text.burst} ${formatNumber(burst)}. `)

/** What the account would get with each plan that is offered, beside what it has. */
const PlanComparison = ({ account: { account, plan: own, offeredPlans }, networks }: PlanProps) => {
  const plans = [own, ...offeredPlans].toSorted((a, b) => (a.dailyCredits ?? 0) - (b.dailyCredits ?? 0))
  return (
    <>
      <h2>{text.compare}</h2>
      <Table
        caption={text.compare}
        keyOf={({ name }) => name}
        rows={plans}
        columns={[
          {
            title: text.name,
            cell: plan => (
              <span class="buttons">
                <span class="row-name">{plan.name}</span>
                {plan === own && (
                  <Badge isLabel tone="accent">
                    {text.yourPlan}
                  </Badge>
                )}
              </span>
            ),
          },
          ...(plans.some(({ price }) => price !== null) ? [{ title: text.price, cell: ({ price }: PlanJson) => price ?? '–' }] : []),
          {
            title: developerTexts.overview.perDayTitle,
            isNumber: true,
            cell: ({ dailyCredits }) => (
              <>
                {formatNumber(dailyCredits)}
                {dailyCredits !== null && own.dailyCredits !== null && dailyCredits > own.dailyCredits && (
                  <p class="help">{formatTimes(dailyCredits / own.dailyCredits)}×</p>
                )}
              </>
            ),
          },
          {
            title: developerTexts.keys.rate,
            cell: plan => (
              <>
                {formatRate(plan, networks)}
                {plan.burst !== null && <p class="help">{formatBurst(plan)}</p>}
              </>
            ),
          },
          { title: text.forwarding, cell: formatForwarding },
          { title: developerTexts.keys.actions, cell: plan => plan !== own && <GetPlan plan={plan} of={account.id} /> },
        ]}
      />
    </>
  )
}

/** `333`, `67`, `1.5`. */
const formatTimes = (ratio: number): string => formatNumber(ratio < 10 ? Number(ratio.toPrecision(2)) : Math.round(ratio))

/** Where the operator sells it, or whom to ask. */
const GetPlan = ({ plan: { name, url }, of }: { readonly plan: PlanJson; readonly of: string }) => {
  // A mail says what it is about.
  const subject = brand.support?.startsWith('mailto:') === true ? `?subject=${encodeURIComponent(`${text.name} ${name}: ${of}`)}` : ''
  const href = url ?? (brand.support === undefined ? undefined : `${brand.support}${subject}`)
  return href === undefined ? (
    <ContactSupport />
  ) : (
    <ExternalLink class="button quiet small" href={href}>
      {url === null ? text.askFor : text.get} {name}
    </ExternalLink>
  )
}

const orders = (['name', 'price'] as const).map(value => ({ value, label: text.orders[value] }))

/** What the network allows in a second; the rate of the plan takes the place of its own. */
const NetworkRates = ({ network }: { readonly network: NetworkJson | undefined }) => {
  if (network === undefined || account.value === undefined) return null
  const { name, rateLimits } = network
  if (rateLimits === null) return <p class="lead">{text.noRates}</p>
  const { rate, burst } = account.value.plan
  const atOnce = rate === null ? rateLimits.accountBurst : burst
  const accountRate = rate ?? rateLimits.accountRate
  const limits = [
    accountRate !== null && `${formatPerSecond(accountRate)}${atOnce === null ? '' : ` (${formatNumber(atOnce)} ${text.atOnce})`}`,
    rateLimits.accountCreditRate !== null && `${formatNumber(rateLimits.accountCreditRate)} ${text.creditsPerSecond}`,
  ].filter(limit => limit !== false)
  const parts = [
    limits.length > 0 && `${text.rates.account}: ${limits.join(', ')}`,
    rateLimits.keyRate !== null && `${text.rates.key}: ${formatPerSecond(rateLimits.keyRate)}`,
    rateLimits.ipRate !== null && `${text.rates.ip}: ${formatPerSecond(rateLimits.ipRate)}`,
  ].filter(part => part !== false)
  return (
    <p class="lead">
      {parts.length > 0 && `${text.ratesOn} ${name}: ${parts.join('; ')}. `}
      {text.rates.also}
    </p>
  )
}

interface PricesProps {
  readonly names: readonly string[]
  readonly network: string
  /** About the network. */
  readonly children: ComponentChildren
  onChoose(network: string): void
}

const Prices = ({ names, network, children, onChoose }: PricesProps) => {
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
      {children}
      <WhenLoaded from={methods} skeleton={<Skeleton lines={12} />}>
        {found => {
          const shown = found.filter(matches).toSorted(compare)
          return shown.length === 0 ? (
            <EmptyState icon="search" title={developerTexts.nothingFound} />
          ) : (
            <Table
              caption={text.prices}
              keyOf={row => row.name}
              rows={shown}
              columns={[
                { title: text.method, narrow: 'name', cell: ({ name }) => <code>{name}</code> },
                { title: text.does, narrow: 'rest', cell: row => <Summary method={row} /> },
                {
                  title: text.credits,
                  narrow: 'end',
                  isNumber: true,
                  cell: ({ credits }) => (
                    <>
                      {formatNumber(credits)}
                      <span class="when-narrow"> {developerTexts.credits.toLowerCase()}</span>
                    </>
                  ),
                },
                { title: text.perDay, narrow: 'restEnd', isNumber: true, cell: ({ credits }) => formatNumber(callsPerDay(credits)) },
              ]}
            />
          )
        }}
      </WhenLoaded>
    </>
  )
}

/** What a method does, how its results are verified, and what else may be charged. */
const Summary = ({ method }: { readonly method: PortalMethod }) => {
  const { name, credits, verification, verifyCredits, eventCredits, forwarded } = method
  return (
    <div class="summary">
      {summaryOf(name)}
      {method.limits !== undefined && <p class="help">{describeLimits(method.limits)}</p>}
      {forwarded !== undefined && account.value?.plan.forwarding && <p class="help">{text.forwardedTo[forwarded]}</p>}
      {verification !== undefined && (
        <p class="help">
          {text.verification} {verification}.
        </p>
      )}
      {eventCredits?.['logs'] !== undefined && (
        <p class="help">
          {formatNumber(eventCredits['logs'])} {text.perKiBOfLogs}
        </p>
      )}
      {Object.entries(verifyCredits ?? {})
        .filter(([, asked]) => asked !== credits)
        .map(([wish, asked]) => (
          <p key={wish} class="help">
            {formatNumber(asked)} {text.creditsWith} <code>Tollgate-Verify: {wish}</code>
          </p>
        ))}
    </div>
  )
}

/** How many calls the credits of a day are. */
const callsPerDay = (credits: number): number | null => {
  const dailyCredits = account.value?.plan.dailyCredits ?? null
  return dailyCredits === null || credits === 0 ? null : Math.floor(dailyCredits / credits)
}
