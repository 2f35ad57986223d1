import { useSignal } from '@preact/signals'
import type { RequestJson } from '../../request-json.ts'
import type { NetworkJson } from '../../routes/networks.ts'
import type { RequestLogJson, RequestPageJson } from '../../routes/requests.ts'
import { now } from '../clock.ts'
import { Banner } from '../components/banner.tsx'
import { CopyCode, SearchField, WhenLoaded, WhileRead } from '../components/controls.tsx'
import { Dialog } from '../components/dialog.tsx'
import { Downloads } from '../components/downloads.tsx'
import { EmptyState } from '../components/empty-state.tsx'
import { Form } from '../components/form.tsx'
import { Icon } from '../components/icon.tsx'
import { Outcome, RequestFacts } from '../components/request-facts.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { Table } from '../components/table.tsx'
import { Segments } from '../components/tabs.tsx'
import { TextWithCode } from '../components/text-with-code.tsx'
import { formatClock, formatLatency, formatNumber, formatOutcome, formatSeconds } from '../format.ts'
import { get, request, useRequest } from '../request.ts'
import { changeQuery, followLink, navigate, query, queryMember } from '../router.ts'
import { Advice } from './advice.tsx'
import { developerTexts } from './developer-texts.ts'
import { codeSamples } from './code-samples.ts'
import { CodeTabs } from './code-tabs.tsx'
import { session } from './developer-session.ts'
import { FilterButton, FilterSelect, RangePicker, chooseFilter, linkWithFilters, rangeAndFilters } from './filters.tsx'
import { useKeyNames } from './key-names.ts'
import { indentJson, itemsOf } from './json-text.ts'
import { findKey, keyPlaceholder } from './tab-key.ts'
import { TryCallLink } from './try-call-link.tsx'

const text = developerTexts.requests

/** Kinds that are chosen often; any other outcome is a filter too. */
const kinds = (['', 'failed', 'slow', 'ok'] as const).map(value => ({ value, label: value === '' ? text.allLogged : formatOutcome(value) }))

/** Somebody has just made a call, and waits for it. */
const refreshIntervalMs = 4_000

export const Requests = () => {
  const search = queryMember('search')
  const after = queryMember('after')
  const page = useRequest<RequestPageJson>(pathOf({ search: search.value, after: after.value }), refreshIntervalMs)
  const keys = useKeyNames()
  const isChanging = useSignal(false)
  const shownId = query.value.get('show')
  const shown = page.data.value?.requests.find(({ id }) => id === shownId)
  const outcome = query.value.get('outcome') ?? ''
  const { methods = [], networks = [], keys: keyIds = [], requestCount = 0 } = page.data.value ?? {}
  const exportAll = async () => {
    const requests = await readAll(search.value)
    return { json: requests, rows: requests.map(each => rowOf(each, keys)) }
  }
  return (
    <>
      <div class="controls">
        <Segments
          label={developerTexts.usage.outcome}
          options={kinds.some(({ value }) => value === outcome) ? kinds : [...kinds, { value: outcome, label: formatOutcome(outcome) }]}
          value={outcome}
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
        {requestCount > 0 && <Downloads name="requests" titles={rowTitles} read={exportAll} />}
      </div>
      <div class="controls pairs">
        <FilterSelect dimension="method" values={methods} />
        <FilterSelect dimension="network" values={networks} />
        <FilterSelect dimension="key" values={keyIds} nameOf={keys.nameOf} />
        <RangePicker isOfLog />
      </div>
      <WhenLoaded from={page} skeleton={<Skeleton lines={10} />}>
        {found => (
          <>
            <WhileRead from={page}>
              <RequestList page={found} nameOfKey={keys.nameOf} />
            </WhileRead>
            {isChanging.value && <LogSettings log={found.log} onSaved={page.reload} onClose={() => (isChanging.value = false)} />}
          </>
        )}
      </WhenLoaded>
      {shown !== undefined && <RequestDetails shown={shown} keys={keys} onClose={() => changeQuery({ show: '' })} />}
    </>
  )
}

/** What is asked for, of the range and the filters of the address. */
const pathOf = (asked: Readonly<Record<string, string>>): string =>
  `/requests?${rangeAndFilters(Object.fromEntries(Object.entries(asked).filter(([, value]) => value !== '')))}`

/** As many as the log has of an account, about. */
const maxExported = 10_000

/** All that the filters of now include, whichever part of them is shown. */
const readAll = async (search: string): Promise<readonly RequestJson[]> => {
  const path = pathOf({ search, limit: '1000' })
  const found: RequestJson[] = []
  for (let after: string | null = ''; after !== null && found.length < maxExported; ) {
    const { requests, next }: RequestPageJson = await get(after === '' ? path : `${path}&${new URLSearchParams({ after })}`)
    found.push(...requests)
    after = next
  }
  return found
}

/** As the API names them, but for the key. */
const rowMembers = ['outcome', 'code', 'message', 'durationMs', 'credits', 'transport', 'cache', 'attempts', 'upstream', 'params'] as const

const rowTitles = ['time', 'requestId', 'method', 'network', 'key', 'hint', 'keyId', ...rowMembers]

const rowOf = (shown: RequestJson, { byId }: ReturnType<typeof useKeyNames>) => {
  const { name = '', hint = '' } = byId.get(shown.key) ?? {}
  const { time, requestId, method, network, key } = shown
  return [time, requestId, method, network, name, hint, key, ...rowMembers.map(member => shown[member] ?? '')]
}

/** `are logged: …`, of calls; the dialog has the rates. */
const whatIsLogged = ({ slowMs, retentionHours }: RequestLogJson): string =>
  `${text.areLogged} (${formatLatency(slowMs)} ${text.orMore}), ${text.sample} ${formatNumber(retentionHours)} h.`

/** Anything but which request is shown. */
const isFiltered = (): boolean => [...query.value.keys()].some(name => name !== 'show')

interface RequestListProps {
  readonly page: RequestPageJson
  nameOfKey(id: string): string
}

const open = ({ id }: RequestJson): void => changeQuery({ show: id })

/** How many of all calls were logged, and which. */
const Counts = ({ page: { log, requestCount, calls } }: Pick<RequestListProps, 'page'>) => (
  <p class="lead">
    {/* What was logged is known some seconds before it is counted. */}
    {calls !== null && calls >= requestCount ? (
      <>
        {formatNumber(requestCount)} {developerTexts.of}{' '}
        <a href={linkWithFilters('/usage')} onClick={followLink}>
          {formatNumber(calls)} {developerTexts.calls.toLowerCase()}
        </a>
      </>
    ) : (
      developerTexts.calls
    )}{' '}
    {whatIsLogged(log)}
  </p>
)

const RequestList = ({ page, nameOfKey }: RequestListProps) => {
  const { log, requests, next } = page
  if (!log.isOffered) return <EmptyState icon="requests" title={text.offByOperator} />
  if (log.setting === 'off')
    return (
      <EmptyState icon="requests" title={text.offByAccount}>
        {text.turnOn}
      </EmptyState>
    )
  if (requests.length === 0)
    return (
      <EmptyState
        icon="requests"
        title={isFiltered() ? text.noneFound : text.none}
        actions={
          isFiltered() ? (
            <button type="button" class="quiet" onClick={() => navigate('/requests')}>
              {developerTexts.usage.clearFilters}
            </button>
          ) : (
            <TryCallLink />
          )
        }
      >
        {isFiltered() ? <WhyMissing log={log} /> : `${developerTexts.calls} ${whatIsLogged(log)}`}
      </EmptyState>
    )
  return (
    <>
      <Counts page={page} />
      <Table
        caption={developerTexts.pages.requests}
        keyOf={row => row.id}
        rows={requests}
        onOpen={open}
        columns={[
          {
            title: developerTexts.usage.time,
            narrow: 'end',
            cell: row => (
              <button
                type="button"
                class="link one-line"
                aria-label={`${text.details}: ${row.method}, ${formatSeconds(row.time)}`}
                onClick={() => open(row)}
              >
                <time dateTime={row.time}>{formatClock(row.time, now.value)}</time>
              </button>
            ),
          },
          {
            title: developerTexts.usage.outcome,
            narrow: 'state',
            cell: row => (
              <>
                <Outcome shown={row} />
                {row.message !== null && (
                  <p class="help told" title={row.message}>
                    <TextWithCode text={row.message} />
                  </p>
                )}
              </>
            ),
          },
          { title: developerTexts.usage.method, narrow: 'name', cell: row => <FilterButton dimension="method" value={row.method} /> },
          { title: developerTexts.usage.network, cell: row => <FilterButton dimension="network" value={row.network} /> },
          {
            title: developerTexts.usage.key,
            narrow: 'rest',
            cell: row => <FilterButton dimension="key" value={row.key} name={nameOfKey(row.key)} />,
          },
          { title: text.duration, narrow: 'restEnd', isNumber: true, cell: row => formatLatency(row.durationMs) },
          { title: developerTexts.credits, isNumber: true, cell: row => formatNumber(row.credits) },
        ]}
      />
      <div class="pager">
        <span>
          {formatNumber(page.offset + 1)}–{formatNumber(page.offset + requests.length)} {developerTexts.of}{' '}
          {formatNumber(page.requestCount)}
        </span>
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
    </>
  )
}

/** Somebody looks for a call that they know was made. */
const WhyMissing = ({ log: { retentionHours } }: Pick<RequestPageJson, 'log'>) => {
  const { title, notSampled, tooMany, old, recent, noKey } = text.whyMissing
  return (
    <>
      {title}
      <ul>
        {[notSampled, tooMany, `${old} ${formatNumber(retentionHours)} ${text.whyMissing.hours}`, recent, noKey].map(reason => (
          <li key={reason}>{reason}</li>
        ))}
      </ul>
      {text.always}
    </>
  )
}

interface RequestDetailsProps {
  readonly shown: RequestJson
  readonly keys: ReturnType<typeof useKeyNames>
  onClose(): void
}

const RequestDetails = ({ shown, keys, onClose }: RequestDetailsProps) => {
  const { method, meantMethod, network, key: id, outcome, message, advice, params, paramsOmitted, isCut } = shown
  const key = keys.byId.get(id)
  // Those that there are not are counted together.
  const isUnknown = outcome === 'method'
  const usage = new URLSearchParams(isUnknown ? { outcome, by: 'method' } : { method, by: 'outcome' })
  const call = new URLSearchParams({ network, method: meantMethod ?? method, key: id, ...(params !== null && !isCut && { params }) })
  return (
    <Dialog title={method} isWide onClose={onClose}>
      <p>
        <Outcome shown={shown} />
      </p>
      {advice !== null && (
        <section aria-label={text.why}>
          <h3>{text.why}</h3>
          {message !== null && (
            <p data-testid="message">
              <TextWithCode text={message} />
            </p>
          )}
          <h3>{developerTexts.errors.advice}</h3>
          <p data-testid="why">
            <Advice text={advice} />
          </p>
        </section>
      )}
      <h3>{text.params}</h3>
      {params === null ? (
        <p class="help">{paramsOmitted === null ? text.noParams : text.omitted[paramsOmitted]}</p>
      ) : (
        <CopyCode text={isCut ? `${params}…` : indentJson(params)} label={text.params} />
      )}
      {isCut && <p class="help">{text.cut}</p>}
      {params !== null && !isCut && <RequestCode network={network} method={method} params={params} secret={key && findKey(key)} />}
      <RequestFacts shown={shown} of={[[developerTexts.usage.key, keys.nameOf(id)]]} />
      <div class="buttons end">
        <a class="button quiet" href={`/usage?${usage}`} onClick={followLink}>
          {isUnknown ? text.usageOfUnknown : text.usageOfMethod}
        </a>
        {/* To send again what the network does not have would lead nowhere. */}
        {(!isUnknown || meantMethod !== null) && (
          <a class="button" href={`/try-it?${call}`} onClick={followLink}>
            <Icon name="play" />
            {isUnknown ? `${text.tryMeant} ${meantMethod}` : outcome === 'ok' ? text.tryIt : text.tryAgain}
          </a>
        )}
      </div>
    </Dialog>
  )
}

interface RequestCodeProps {
  readonly network: string
  readonly method: string
  /** JSON. */
  readonly params: string
  /** The key that it was made with, where this tab knows it. */
  readonly secret: string | undefined
}

/** The request in code, to be sent from a terminal. */
const RequestCode = (props: RequestCodeProps) => {
  const isOpen = useSignal(false)
  return (
    <details onToggle={({ currentTarget }) => (isOpen.value = currentTarget.open)}>
      <summary>{text.inCode}</summary>
      {isOpen.value && <LoadedCode {...props} />}
    </details>
  )
}

const LoadedCode = ({ network: name, method, params, secret }: RequestCodeProps) => (
  <WhenLoaded from={useRequest<readonly NetworkJson[]>('/networks')}>
    {networks =>
      networks
        .filter(network => network.name === name)
        .map(({ http, chainId }) => (
          <CodeTabs
            key={name}
            samples={codeSamples({ url: `${http}/v3/${secret ?? keyPlaceholder}`, chainId, method, params: itemsOf(params) })}
            secret={secret}
          />
        ))
    }
  </WhenLoaded>
)

type LogSetting = RequestLogJson['setting']

/** The most first. */
const logSettings: readonly LogSetting[] = ['on', 'withoutParams', 'off']

interface LogSettingsProps {
  readonly log: RequestLogJson
  onSaved(): void
  onClose(): void
}

const LogSettings = ({ log, onSaved, onClose }: LogSettingsProps) => {
  const isOwner = session.value?.person.role === 'owner'
  const chosen = useSignal(log.setting)
  const logged = useRequest<RequestPageJson>('/requests?limit=1').data.value?.requestCount
  const isLess = logSettings.indexOf(chosen.value) > logSettings.indexOf(log.setting)
  const deletes = isLess && logged !== 0
  const save = async (): Promise<void> => {
    // To save the same once more would delete what is logged.
    if (chosen.value !== log.setting) await request('PATCH', '/requests', { setting: chosen.value })
    onSaved()
    onClose()
  }
  return (
    <Dialog title={text.whatIsLogged} onClose={onClose}>
      {log.isOffered && log.setting !== 'off' && (
        <p>
          {developerTexts.calls} {whatIsLogged(log)} {text.rates} {text.perProcess} {text.always}
        </p>
      )}
      <p>
        {text.keptAtMost} {text.neverLogged}
      </p>
      {!log.isOffered && <p>{text.offByOperator}</p>}
      {log.isOffered && !log.offersParams && <p>{text.noParamsByOperator}</p>}
      {!isOwner && <p class="help">{text.ownersOnly}</p>}
      {isOwner && log.isOffered && (
        <Form
          title={text.whatIsLogged}
          heading="none"
          button={deletes ? text.saveAndDelete : developerTexts.keys.save}
          isDangerous={deletes}
          send={save}
          onCancel={onClose}
        >
          {() => (
            <>
              <fieldset class="choices">
                <legend class="unseen">{text.whatIsLogged}</legend>
                {logSettings.map(value => (
                  <label key={value}>
                    <input
                      type="radio"
                      name="setting"
                      value={value}
                      checked={value === chosen.value}
                      onChange={() => (chosen.value = value)}
                    />{' '}
                    {text.settings[value]}
                  </label>
                ))}
              </fieldset>
              <div role="status">
                {deletes && (
                  <Banner tone="warn" title={logged === undefined ? text.lessDeletes : `${text.lessDeletes}: ${formatNumber(logged)}.`}>
                    {text.cannotUndo}
                  </Banner>
                )}
              </div>
            </>
          )}
        </Form>
      )}
    </Dialog>
  )
}
