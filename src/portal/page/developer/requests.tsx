import { useSignal } from '@preact/signals'
import type { RequestJson } from '../../request-json.ts'
import type { RequestLogJson, RequestPageJson } from '../../routes/requests.ts'
import { CopyCode, SearchField, WhenLoaded } from '../components/controls.tsx'
import { Dialog } from '../components/dialog.tsx'
import { EmptyState } from '../components/empty-state.tsx'
import { Form } from '../components/form.tsx'
import { Icon } from '../components/icon.tsx'
import { Outcome, RequestFacts } from '../components/request-facts.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { Table } from '../components/table.tsx'
import { Segments } from '../components/tabs.tsx'
import { formatLatency, formatNumber, formatSeconds } from '../format.ts'
import { request, useRequest } from '../request.ts'
import { changeQuery, followLink, query, queryMember } from '../router.ts'
import { texts } from '../texts.ts'
import { session } from './developer-session.ts'
import { FilterButton, FilterChips, chooseFilter, filtersAlone, useKeyNames } from './filters.tsx'
import { prettyJson } from './try-call.ts'
import { TryCallLink } from './try-call-link.tsx'

const text = texts.requests

/** Kinds that are chosen often; any other outcome is a filter too. */
const kinds = (['', 'failed', 'slow', 'ok'] as const).map(value => ({ value, label: text.kinds[value === '' ? 'all' : value] }))

/** Somebody has just made a call, and waits for it. */
const refreshIntervalMs = 4_000

export const Requests = () => {
  const search = queryMember('search')
  const after = queryMember('after')
  const members = { ...(search.value !== '' && { search: search.value }), ...(after.value !== '' && { after: after.value }) }
  const page = useRequest<RequestPageJson>(`/requests?${filtersAlone(members)}`, refreshIntervalMs)
  const keys = useKeyNames()
  const isChanging = useSignal(false)
  const shownId = query.value.get('show')
  const shown = page.data.value?.requests.find(({ id }) => id === shownId)
  return (
    <>
      <div class="controls">
        <Segments
          label={texts.usage.outcome}
          options={kinds}
          value={(query.value.get('outcome') ?? '') as ''} // another outcome chooses none of them
          onChange={value => chooseFilter('outcome', value)}
        />
        <SearchField
          label={text.search}
          value={search.value}
          onInput={value => changeQuery({ search: value, after: '' }, { isTyping: true })}
        />
        <div class="buttons">
          <button type="button" class="quiet" onClick={() => (isChanging.value = true)}>
            <Icon name="settings" />
            {text.whatIsLogged}
          </button>
        </div>
      </div>
      <FilterChips nameOfKey={keys.nameOf} />
      <WhenLoaded from={page} skeleton={<Skeleton lines={10} />}>
        {found => (
          <>
            <RequestList page={found} nameOfKey={keys.nameOf} />
            {isChanging.value && <LogSettings log={found.log} onSaved={page.reload} onClose={() => (isChanging.value = false)} />}
          </>
        )}
      </WhenLoaded>
      {shown !== undefined && <RequestDetails shown={shown} nameOfKey={keys.nameOf} onClose={() => changeQuery({ show: '' })} />}
    </>
  )
}

/** Anything but which request is shown. */
const isFiltered = (): boolean => [...query.value.keys()].some(name => name !== 'show')

interface RequestListProps {
  readonly page: RequestPageJson
  nameOfKey(id: string): string
}

const RequestList = ({ page: { log, requests, next }, nameOfKey }: RequestListProps) => {
  if (!log.isOffered) return <EmptyState icon="requests" title={text.offByOperator} />
  if (log.setting === 'off')
    return (
      <EmptyState icon="requests" title={text.offByAccount}>
        {text.turnOn}
      </EmptyState>
    )
  if (requests.length === 0)
    return (
      <EmptyState icon="requests" title={isFiltered() ? text.noneFound : text.none} actions={!isFiltered() && <TryCallLink />}>
        {text.howLogged}
      </EmptyState>
    )
  return (
    <>
      <Table
        caption={texts.pages.requests}
        keyOf={row => row.id}
        rows={requests}
        columns={[
          { title: texts.usage.time, isTime: true, cell: row => <time dateTime={row.time}>{formatSeconds(row.time)}</time> },
          { title: texts.usage.outcome, cell: row => <Outcome shown={row} /> },
          { title: texts.usage.method, cell: row => <FilterButton dimension="method" value={row.method} /> },
          { title: texts.usage.network, cell: row => <FilterButton dimension="network" value={row.network} /> },
          { title: texts.usage.key, cell: row => <FilterButton dimension="key" value={row.key} name={nameOfKey(row.key)} /> },
          { title: text.duration, isNumber: true, cell: row => formatLatency(row.durationMs) },
          { title: texts.credits, isNumber: true, cell: row => formatNumber(row.credits) },
          {
            title: text.details,
            cell: row => (
              <button
                type="button"
                class="quiet"
                aria-label={`${row.advice === null ? text.details : text.why} ${row.method}, ${formatSeconds(row.time)}`}
                onClick={() => changeQuery({ show: row.id })}
              >
                {row.advice === null ? text.details : text.why}
              </button>
            ),
          },
        ]}
      />
      <div class="pager">
        {query.value.has('after') && (
          <button type="button" class="quiet" onClick={() => changeQuery({ after: '' })}>
            {text.newest}
          </button>
        )}
        {next !== null && (
          <button type="button" class="quiet" onClick={() => changeQuery({ after: next })}>
            {text.older}
          </button>
        )}
      </div>
      <p class="help">{text.howLogged}</p>
    </>
  )
}

interface RequestDetailsProps {
  readonly shown: RequestJson
  nameOfKey(id: string): string
  onClose(): void
}

const RequestDetails = ({ shown, nameOfKey, onClose }: RequestDetailsProps) => {
  const { method, network, outcome, message, advice, params, isCut } = shown
  const call = new URLSearchParams({ network, method, ...(params !== null && !isCut && { params }) })
  return (
    <Dialog title={method} isWide onClose={onClose}>
      <p>
        <Outcome shown={shown} />
      </p>
      {message !== null && <p data-testid="message">{message}</p>}
      {advice !== null && (
        <section aria-label={text.why}>
          <h3>{text.why}</h3>
          <p data-testid="why">{advice}</p>
        </section>
      )}
      <h3>{text.params}</h3>
      {params === null ? (
        <p class="help">{text.noParams}</p>
      ) : (
        <CopyCode text={isCut ? `${params}…` : prettyJson(params)} label={text.params} />
      )}
      {isCut && <p class="help">{text.cut}</p>}
      <RequestFacts shown={shown} of={[[texts.usage.key, nameOfKey(shown.key)]]} />
      <div class="buttons end">
        <a class="button quiet" href={`/usage?${new URLSearchParams({ method, by: 'outcome' })}`} onClick={followLink}>
          {text.usageOfMethod}
        </a>
        <a class="button" href={`/try-it?${call}`} onClick={followLink}>
          <Icon name="play" />
          {outcome === 'ok' ? text.tryIt : text.tryAgain}
        </a>
      </div>
    </Dialog>
  )
}

interface LogSettingsProps {
  readonly log: RequestLogJson
  onSaved(): void
  onClose(): void
}

const LogSettings = ({ log, onSaved, onClose }: LogSettingsProps) => {
  const isOwner = session.value?.person.role === 'owner'
  const save = async (values: FormData): Promise<void> => {
    await request('PATCH', '/requests', { setting: values.get('setting') })
    onSaved()
    onClose()
  }
  return (
    <Dialog title={text.whatIsLogged} onClose={onClose}>
      <p>{text.howLogged}</p>
      <p>
        {text.keptFor} {formatNumber(log.retentionHours)} {text.hours}. {text.neverLogged}
      </p>
      {!log.isOffered && <p>{text.offByOperator}</p>}
      {log.isOffered && !log.offersParams && <p>{text.noParamsByOperator}</p>}
      {!isOwner && <p class="help">{text.ownersOnly}</p>}
      {isOwner && log.isOffered && (
        <Form title={text.whatIsLogged} heading="none" button={texts.alerts.save} send={save} onCancel={onClose}>
          {() => (
            <fieldset class="choices">
              <legend class="unseen">{text.whatIsLogged}</legend>
              {(['on', 'withoutParams', 'off'] as const).map(value => (
                <label key={value}>
                  <input type="radio" name="setting" value={value} defaultChecked={value === log.setting} /> {text.settings[value]}
                </label>
              ))}
              <p class="help">{text.lessRemoves}</p>
            </fieldset>
          )}
        </Form>
      )}
    </Dialog>
  )
}
