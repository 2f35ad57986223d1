import type { LatestRequestsJson, OperatorRequestJson, RequestListJson } from '../../operations/request-operations.ts'
import type { OverviewJson } from '../../operator/overview-routes.ts'
import { now } from '../clock.ts'
import { Select, TextField, WhenLoaded } from '../components/controls.tsx'
import { EmptyState } from '../components/empty-state.tsx'
import { Outcome, RequestFacts } from '../components/request-facts.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { Segments } from '../components/tabs.tsx'
import { formatMoment, formatNumber, hourMs } from '../format.ts'
import { useRequest } from '../request.ts'
import { changeQuery, queryMember, withQuery } from '../router.ts'
import { texts } from '../texts.ts'
import { toneOfFault } from './format-figures.ts'
import { AccountLink, KeyLink, NodeLink, PageLink } from './links.tsx'
import { operatorTexts } from './operator-texts.ts'
import { Labeled } from './labeled.tsx'
import { RequestTable, requestKindsWith } from './request-table.tsx'

const text = operatorTexts.requests

/** The latest logged requests of all accounts; or those with an id that a customer quotes. */
export const Requests = () => {
  const id = queryMember('id')
  const find = (event: SubmitEvent): void => {
    event.preventDefault()
    id.set(String(new FormData(event.currentTarget as HTMLFormElement).get('id')).trim())
  }
  return (
    <>
      <form class="controls find" onSubmit={find} aria-label={text.find}>
        <TextField key={id.value} label={texts.requests.requestId} name="id" value={id.value} required />
        <button type="submit">{text.find}</button>
      </form>
      <p class="lead">{text.howToFind}</p>
      {id.value === '' ? (
        <Latest />
      ) : (
        <>
          <p>
            <PageLink to={withQuery({ id: '' })}>{text.all}</PageLink>
          </p>
          <Found key={id.value} id={id.value} />
        </>
      )}
    </>
  )
}

/** Filters are those of the address. */
const Latest = () => {
  const [outcome, network] = [queryMember('outcome', 'all'), queryMember('network')]
  const [account, method, node, code] = [queryMember('account'), queryMember('method'), queryMember('node'), queryMember('code')]
  const [hours, from, to] = [queryMember('hours'), queryMember('from'), queryMember('to')]
  const overview = useRequest<OverviewJson>('/overview', Infinity)
  // That of the address may have no calls, or the names are yet to come.
  const networks = [...new Set([...(overview.data.value?.networks ?? []).map(({ name }) => name), network.value])].filter(Boolean)
  const typed = { account: account.value, method: method.value, node: node.value, code: code.value }
  const time = { hours: hours.value, from: from.value, to: to.value }
  const chosen = { outcome: outcome.value === 'all' ? '' : outcome.value, network: network.value, ...time, ...typed }
  const query = new URLSearchParams(Object.entries(chosen).filter(([, value]) => value !== '')).toString()
  const apply = (event: Event): void => {
    event.preventDefault()
    const values = new FormData(event.currentTarget as HTMLFormElement)
    changeQuery(Object.fromEntries(Object.keys(typed).map(name => [name, String(values.get(name)).trim()])))
  }
  return (
    <>
      <p class="lead">{text.whatIsLogged}</p>
      <form class="controls" onSubmit={apply} onChange={apply} aria-label={text.filters}>
        <Labeled label={texts.usage.outcome}>
          <Segments label={texts.usage.outcome} options={requestKindsWith(outcome.value)} value={outcome.value} onChange={outcome.set} />
        </Labeled>
        <Select
          label={texts.usage.network}
          options={[{ value: '', label: texts.all }, ...networks]}
          value={network.value}
          onChange={network.set}
        />
        <TextField key={`account ${account.value}`} label={text.account} name="account" value={account.value} />
        <TextField key={`method ${method.value}`} label={texts.usage.method} name="method" value={method.value} />
        <TextField key={`node ${node.value}`} label={operatorTexts.nodes.upstream} name="node" value={node.value} />
        <TextField key={`code ${code.value}`} label={text.code} name="code" value={code.value} placeholder="e.g. -32602" />
        <Time hours={hours.value} from={from.value} to={to.value} />
        <button type="submit" class="quiet">
          {text.show}
        </button>
      </form>
      <LatestTable key={query} path={query === '' ? '/requests' : `/requests?${query}`} hasAccount={account.value !== ''} />
    </>
  )
}

const spans = Object.entries(text.ranges).map(([value, label]) => ({ value, label }))

const betweenTimes = 'between'

const minuteMs = 60_000

interface TimeProps {
  readonly hours: string
  /** ISO 8601; empty: the time is chosen by `hours`. */
  readonly from: string
  readonly to: string
}

/** How far back, or from when until when: then the last hour at first. */
const Time = ({ hours, from, to }: TimeProps) => {
  const isBetween = from !== '' || to !== ''
  const choose = (value: string): void => {
    const end = minuteMs * Math.ceil(now.value / minuteMs)
    const [first, last] = value === betweenTimes ? [end - hourMs, end].map(time => new Date(time).toISOString()) : []
    changeQuery({ hours: value === betweenTimes ? '' : value, from: first ?? '', to: last ?? '' })
  }
  return (
    <>
      <Select label={operatorTexts.traffic.range} options={spans} value={isBetween ? betweenTimes : hours} onChange={choose} />
      {isBetween && <TimeField label={`${operatorTexts.audit.from} (UTC)`} name="from" value={from} />}
      {isBetween && <TimeField label={`${operatorTexts.audit.to} (UTC)`} name="to" value={to} />}
    </>
  )
}

/** The input has neither seconds nor a zone. */
const TimeField = ({ label, name, value }: { readonly label: string; readonly name: 'from' | 'to'; readonly value: string }) => (
  <div class="field">
    <label for={`time-${name}`}>{label}</label>
    <input
      id={`time-${name}`}
      type="datetime-local"
      value={value.slice(0, 16)}
      onChange={({ currentTarget }) => changeQuery({ [name]: currentTarget.value === '' ? '' : `${currentTarget.value}:00.000Z` })}
    />
  </div>
)

const LatestTable = ({ path, hasAccount }: { readonly path: string; readonly hasAccount: boolean }) => (
  <WhenLoaded from={useRequest<LatestRequestsJson>(path)} skeleton={<Skeleton height={14} />}>
    {({ isLogged, retentionHours, requests, searchedFrom }) => (
      <>
        {requests.length === 0 ? (
          <EmptyState icon="requests" title={isLogged ? operatorTexts.accountUsage.noRequests : text.notLogged}>
            {isLogged && `${text.kept} ${formatNumber(retentionHours)} h.`}
          </EmptyState>
        ) : (
          <RequestTable caption={operatorTexts.pages.requests} requests={requests} by={hasAccount ? 'key' : 'account'} />
        )}
        {searchedFrom !== null && (
          <p class="help">
            {text.searchedFrom} {formatMoment(searchedFrom, now.value)}.
          </p>
        )}
      </>
    )}
  </WhenLoaded>
)

const Found = ({ id }: { readonly id: string }) => (
  <WhenLoaded from={useRequest<RequestListJson>(`/requests/${encodeURIComponent(id)}`, Infinity)} skeleton={<Skeleton height={14} />}>
    {({ isLogged, retentionHours, requests }) =>
      requests.length === 0 ? (
        <EmptyState icon="requests" title={isLogged ? text.noneFound : text.notLogged}>
          {isLogged && `${text.kept} ${formatNumber(retentionHours)} h. ${text.whatIsLogged}`}
        </EmptyState>
      ) : (
        requests.map(request => <Request key={request.id} request={request} />)
      )
    }
  </WhenLoaded>
)

const Request = ({ request }: { readonly request: OperatorRequestJson }) => {
  const { account, key, method, network, upstream, message, advice } = request
  return (
    <section class="card" aria-label={method}>
      <div class="heading">
        <h2>{method}</h2>
        <Outcome shown={request} toneOfFailure={toneOfFault(request)} />
      </div>
      {message !== null && <p>{message}</p>}
      {advice !== null && <p class="help">{advice}</p>}
      <RequestFacts
        shown={request}
        of={[
          [text.account, <AccountLink key="account" {...account} />],
          [
            texts.usage.key,
            <KeyLink
              key="key"
              account={account.name}
              id={key.id}
              name={[key.name ?? key.id, ...(key.hint === null ? [] : [`…${key.hint}`])].join(' ')}
            />,
          ],
        ]}
        node={upstream !== null && <NodeLink network={network} node={upstream} isShort />}
      />
      <p class="help">{text.noParams}</p>
    </section>
  )
}
