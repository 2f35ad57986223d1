import { useSignal } from '@preact/signals'
import type { UsageSeries } from '../../queries/usage-queries.ts'
import type { OwnKeyJson } from '../../routes/keys.ts'
import type { NetworkJson } from '../../routes/networks.ts'
import { now } from '../clock.ts'
import { AllowedByKey, describeKeyRate } from '../components/allowed-by-key.tsx'
import { Badge } from '../components/badge.tsx'
import { SearchField } from '../components/controls.tsx'
import { EmptyState } from '../components/empty-state.tsx'
import { Bar, Sparkline, toneOfUse } from '../components/figure.tsx'
import { KeyActions, KeyState } from '../components/key-actions.tsx'
import type { KeyAnswer } from '../components/key-actions.tsx'
import { Table } from '../components/table.tsx'
import { VerifyWishes } from '../components/verify-wishes.tsx'
import { formatCalls, formatHourOfUse, formatNumber, formatSince, formatTime } from '../format.ts'
import { developerTexts } from './developer-texts.ts'
import { namesWithoutRates } from './rate-limits.ts'

const text = developerTexts.keys

/** What the keys have done in this hour and the 23 before. */
export interface KeysUse {
  /** The beginning of each point, ISO 8601. */
  readonly times: readonly string[]
  /** Of those that were used. */
  readonly groups: readonly UsageSeries[]
}

interface KeyTableProps {
  readonly keys: readonly OwnKeyJson[]
  readonly use: KeysUse
  /** Undefined until they are known. */
  readonly networks: readonly NetworkJson[] | undefined
  readonly mayChange: boolean
  onChanged(answer: KeyAnswer): void
  /** Asks for the form that changes the key. */
  onChange(id: string): void
}

/** With so many keys, one looks for a name. */
const minSearched = 8

/** The keys, the newest first; those that have ended are many after some years, and are shown when asked for. */
export const KeyTables = ({ keys, ...props }: KeyTableProps) => {
  const isShown = useSignal(false)
  const search = useSignal('')
  const typed = search.value.trim().toLowerCase()
  const matching = keys.filter(({ name, project, hint, id }) => `${name} ${project} ${hint} ${id}`.toLowerCase().includes(typed))
  const isUsable = ({ state }: OwnKeyJson) => state === 'active' || state === 'suspended'
  const [usable, ended] = [matching.filter(isUsable), matching.filter(key => !isUsable(key))]
  return (
    <>
      {keys.length >= minSearched && (
        <div class="controls">
          <SearchField label={text.search} value={search.value} onInput={value => (search.value = value)} />
        </div>
      )}
      {usable.length > 0 ? (
        <ByProject keys={usable} {...props} />
      ) : typed === '' ? (
        <EmptyState icon="keys" title={text.noneActive} />
      ) : (
        <EmptyState icon="search" title={developerTexts.nothingFound} />
      )}
      {ended.length > 0 && (
        <p>
          <button type="button" class="plain" aria-expanded={isShown.value} onClick={() => (isShown.value = !isShown.value)}>
            {isShown.value ? text.hideEnded : text.showEnded} ({formatNumber(ended.length)})
          </button>
        </p>
      )}
      {isShown.value && ended.length > 0 && <KeyTable caption={text.ended} keys={ended} {...props} mayChange={false} />}
    </>
  )
}

/** A table for each project, in the order of their names, and one of the keys that have none; where none has one, that table alone. */
const ByProject = ({ keys, ...props }: KeyTableProps) => {
  const projects = [...new Set(keys.map(({ project }) => project))].toSorted(
    (a, b) => Number(a === '') - Number(b === '') || a.localeCompare(b),
  )
  if (projects.every(project => project === '')) return <KeyTable caption={developerTexts.pages.keys} keys={keys} {...props} />
  return (
    <>
      {projects.map(project => {
        const title = project || text.noProject
        return (
          <section key={project}>
            <h2>{title}</h2>
            <KeyTable caption={title} keys={keys.filter(key => key.project === project)} {...props} />
          </section>
        )
      })}
    </>
  )
}

const KeyTable = ({ caption, keys, use, networks, mayChange, onChanged, onChange }: KeyTableProps & { readonly caption: string }) => (
  <Table
    caption={caption}
    keyOf={key => key.id}
    rows={keys.toReversed()}
    columns={[
      {
        title: text.name,
        cell: key => (
          <>
            <span class="row-name">{key.name || key.id}</span> <code>…{key.hint}</code>
            <p class="help">{lifetimeOf(key)}</p>
            <VerifyWishes verify={key.verify} />
          </>
        ),
      },
      { title: text.state, cell: key => <KeyState state={key.state} /> },
      { title: text.allowed, cell: key => <AllowedByKey apiKey={key} /> },
      { title: text.todayLimit, cell: key => <Use apiKey={key} counted={creditsOfToday(use, key.id)} networks={networks} /> },
      { title: text.lastUsed, isTime: true, cell: key => <LastUse apiKey={key} use={use} /> },
      ...(mayChange
        ? [
            {
              title: text.actions,
              cell: (key: OwnKeyJson) => (
                <KeyActions apiKey={key} use={describeUse(key, use)} onChanged={onChanged} onChange={() => onChange(key.id)} />
              ),
            },
          ]
        : []),
    ]}
  />
)

/** `1,234 calls since Jan 31, 14:00 UTC`; undefined until that is read. */
const describeUse = ({ id }: OwnKeyJson, { times: [since], groups }: KeysUse): string | undefined =>
  since && `${formatCalls(groups.find(({ name }) => name === id)?.calls ?? 0)} ${formatSince(since)}`

const LastUse = ({ apiKey, use: { times, groups } }: { readonly apiKey: OwnKeyJson; readonly use: KeysUse }) => {
  const calls = groups.find(({ name }) => name === apiKey.id)
  const since = formatSince(times[0] ?? '')
  return (
    <>
      {formatHourOfUse(apiKey.lastUsed, now.value)}
      {calls !== undefined && (
        <>
          <Sparkline label={`${apiKey.name || apiKey.hint}, ${formatCalls(calls.calls)} ${since}`} values={calls.points.calls} />
          <p class="help">
            {formatCalls(calls.calls)} {since}
          </p>
        </>
      )}
    </>
  )
}

/** Of a day UTC, as the credits of the account are. */
const creditsOfToday = ({ times, groups }: KeysUse, id: string): number => {
  const today = new Date(now.value).toISOString().slice(0, 10)
  const credits = groups.find(({ name }) => name === id)?.points.credits ?? []
  return credits.reduce((sum, each, i) => (times[i]?.startsWith(today) ? sum + each : sum), 0)
}

const lifetimeOf = ({ created, expires }: OwnKeyJson): string =>
  `${text.createdAt} ${created.slice(0, 10)}${expires === null ? '' : `, ${text.expiresAt} ${formatTime(expires)}`}`

interface UseProps extends Pick<KeyTableProps, 'networks'> {
  readonly apiKey: OwnKeyJson
  /** Credits that its calls of today have cost. */
  readonly counted: number
}

/** What the key has used today, of how much; and how fast it may be used. */
const Use = ({ apiKey: { name, hint, state, dailyCredits, usedToday, rate, burst, networks: allowed }, counted, networks }: UseProps) => (
  <>
    {dailyCredits === null ? (
      <>
        <span class="number">{formatNumber(counted)}</span>
        <p class="help">{text.noDailyLimit}</p>
      </>
    ) : (
      <>
        <span class="number">
          {formatNumber(usedToday ?? 0)} / {formatNumber(dailyCredits)}
        </span>
        <Bar
          label={`${text.today}: ${name || hint}`}
          value={usedToday ?? 0}
          max={dailyCredits}
          tone={toneOfUse(usedToday ?? 0, dailyCredits)}
          isThin
        />
      </>
    )}
    {rate !== null && (
      <p class="help">
        {describeKeyRate({ rate, burst })}{' '}
        {networks !== undefined && state === 'active' && (
          <NotEnforced on={networks.filter(each => allowed.length === 0 || allowed.includes(each.name))} />
        )}
      </p>
    )}
  </>
)

/** Where the rate of a key has no effect, why, and what to do. */
const NotEnforced = ({ on }: { readonly on: readonly NetworkJson[] }) => {
  const names = namesWithoutRates(on)
  return names.length === 0 ? null : (
    <>
      <Badge tone="warn" isLabel>
        {names.length === on.length ? text.notEnforced : `${text.notEnforcedOn} ${names.join(', ')}`}
      </Badge>{' '}
      {text.noRates}
    </>
  )
}
