import { useSignal } from '@preact/signals'
import { Fragment } from 'preact'
import type { KeyJson } from '../../key-settings.ts'
import type { UsageSeries } from '../../queries/usage-queries.ts'
import type { OwnKeyJson } from '../../routes/keys.ts'
import { Badge } from '../components/badge.tsx'
import type { Tone } from '../components/badge.tsx'
import { SearchField } from '../components/controls.tsx'
import { EmptyState } from '../components/empty-state.tsx'
import { Bar, Sparkline, toneOfUse } from '../components/figure.tsx'
import { KeyActions } from '../components/key-actions.tsx'
import type { KeyAnswer } from '../components/key-actions.tsx'
import { Table } from '../components/table.tsx'
import { formatHourOfDay, formatNumber, formatTime } from '../format.ts'
import { texts } from '../texts.ts'

const text = texts.keys

interface KeyTableProps {
  readonly keys: readonly OwnKeyJson[]
  /** By id, once they are known; keys without calls are absent. */
  readonly callsOfDay: ReadonlyMap<string, UsageSeries>
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
        <EmptyState icon="search" title={texts.nothingFound} />
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
  if (projects.every(project => project === '')) return <KeyTable caption={texts.pages.keys} keys={keys} {...props} />
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

const tones: Readonly<Record<KeyJson['state'], Tone>> = { active: 'ok', suspended: 'warn', expired: 'neutral', revoked: 'danger' }

export const KeyState = ({ state }: Pick<KeyJson, 'state'>) => <Badge tone={tones[state]}>{text.states[state]}</Badge>

const KeyTable = ({ caption, keys, callsOfDay, mayChange, onChanged, onChange }: KeyTableProps & { readonly caption: string }) => (
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
          </>
        ),
      },
      { title: text.state, cell: key => <KeyState state={key.state} /> },
      { title: text.allowed, cell: key => <Allowed apiKey={key} /> },
      { title: text.todayLimit, cell: key => <Use apiKey={key} /> },
      { title: text.lastUsed, isTime: true, cell: key => <LastUse apiKey={key} calls={callsOfDay.get(key.id)} /> },
      ...(mayChange
        ? [
            {
              title: text.actions,
              cell: (key: OwnKeyJson) => <KeyActions apiKey={key} onChanged={onChanged} onChange={() => onChange(key.id)} />,
            },
          ]
        : []),
    ]}
  />
)

const LastUse = ({ apiKey, calls }: { readonly apiKey: OwnKeyJson; readonly calls: UsageSeries | undefined }) => (
  <>
    {formatHourOfDay(apiKey.lastUsed, texts.never)}
    {calls !== undefined && (
      <Sparkline label={`${apiKey.name || apiKey.hint}, ${text.callsOfDay}: ${formatNumber(calls.calls)}`} values={calls.points.calls} />
    )}
  </>
)

const lifetimeOf = ({ created, expires }: OwnKeyJson): string =>
  `${text.createdAt} ${created.slice(0, 10)}${expires === null ? '' : `, ${text.expiresAt} ${formatTime(expires)}`}`

/** The first of a long list: the rest is behind their number. */
const maxListed = 4

const Allowed = ({ apiKey }: { readonly apiKey: OwnKeyJson }) => {
  const lists = (['networks', 'methods', 'origins', 'ips'] as const).filter(name => apiKey[name].length > 0)
  if (lists.length === 0) return <span class="lead">{text.everything}</span>
  return (
    <dl class="allowed">
      {lists.map(name => (
        <div key={name}>
          <dt>{text.short[name]}</dt>
          <dd title={apiKey[name].join(', ')}>
            {apiKey[name].slice(0, maxListed).map((each, i) => (
              <Fragment key={each}>
                {i > 0 && ', '}
                <span class="unbroken">{each}</span>
              </Fragment>
            ))}
            {apiKey[name].length > maxListed && ` ${text.and} ${apiKey[name].length - maxListed} ${text.more}`}
          </dd>
        </div>
      ))}
    </dl>
  )
}

/** What the key has used today, of how much; and how fast it may be used. */
const Use = ({ apiKey: { name, hint, dailyCredits, usedToday, rate, burst } }: { readonly apiKey: OwnKeyJson }) => (
  <>
    {dailyCredits === null ? (
      <span class="lead">{text.noLimit}</span>
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
    {rate !== null && <p class="help">{burst === null ? rate : `${rate}, ${text.burst.toLowerCase()} ${formatNumber(burst)}`}</p>}
  </>
)
