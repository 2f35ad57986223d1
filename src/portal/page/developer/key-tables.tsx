import { useSignal } from '@preact/signals'
import type { OwnKeyJson } from '../../routes/keys.ts'
import { KeyActions } from '../components/key-actions.tsx'
import type { KeyAnswer } from '../components/key-actions.tsx'
import { Table } from '../components/table.tsx'
import { formatHourOfDay, formatNumber, formatTime } from '../format.ts'
import { texts } from '../texts.ts'

const text = texts.keys

/** What the key has used today, of how much; and how fast it may be used. */
const limitsOf = ({ dailyCredits, usedToday, rate, burst }: OwnKeyJson): readonly string[] => [
  ...(dailyCredits === null ? [] : [`${formatNumber(usedToday ?? 0)} / ${formatNumber(dailyCredits)} ${text.today}`]),
  ...(rate === null ? [] : [burst === null ? rate : `${rate}, ${text.burst.toLowerCase()} ${formatNumber(burst)}`]),
]

const allowlistsOf = (key: OwnKeyJson): readonly string[] =>
  (['networks', 'methods', 'origins', 'ips'] as const)
    .filter(name => key[name].length > 0)
    .map(name => `${text[name]}: ${key[name].join(', ')}`)

const Lines = ({ lines }: { readonly lines: readonly string[] }) => (
  <div class="lines">
    {(lines.length === 0 ? [texts.none] : lines).map(line => (
      <div key={line}>{line}</div>
    ))}
  </div>
)

interface KeyTableProps {
  readonly keys: readonly OwnKeyJson[]
  readonly mayChange: boolean
  onChanged(answer: KeyAnswer): void
  /** Asks for the form that changes the key. */
  onChange(id: string): void
}

/** The keys, the newest first; those that have ended are many after some years, and are shown when asked for. */
export const KeyTables = ({ keys, ...props }: KeyTableProps) => {
  const isShown = useSignal(false)
  const isUsable = ({ state }: OwnKeyJson) => state === 'active' || state === 'suspended'
  const [usable, ended] = [keys.filter(isUsable), keys.filter(key => !isUsable(key))]
  return (
    <>
      {usable.length === 0 ? <p>{text.none}</p> : <KeyTable caption={texts.pages.keys} keys={usable} {...props} />}
      {ended.length > 0 && (
        <p>
          <button type="button" class="quiet" aria-expanded={isShown.value} onClick={() => (isShown.value = !isShown.value)}>
            {isShown.value ? text.hideEnded : text.showEnded} ({formatNumber(ended.length)})
          </button>
        </p>
      )}
      {isShown.value && <KeyTable caption={text.ended} keys={ended} {...props} mayChange={false} />}
    </>
  )
}

const KeyTable = ({ caption, keys, mayChange, onChanged, onChange }: KeyTableProps & { readonly caption: string }) => (
  <Table
    caption={caption}
    keyOf={key => key.id}
    rows={keys.toReversed()}
    columns={[
      {
        title: text.name,
        cell: key => (
          <>
            {key.name || key.id} <code>…{key.hint}</code>
          </>
        ),
      },
      { title: text.state, cell: key => <code>{text.states[key.state]}</code> },
      { title: text.allowlistsAndLimits, cell: key => <Lines lines={[...allowlistsOf(key), ...limitsOf(key)]} /> },
      { title: text.created, isTime: true, cell: key => formatTime(key.created) },
      { title: text.lastUsed, isTime: true, cell: key => formatHourOfDay(key.lastUsed, texts.never) },
      { title: text.expires, isTime: true, cell: key => formatTime(key.expires, texts.never) },
      {
        title: text.actions,
        cell: key => (mayChange ? <KeyActions apiKey={key} onChanged={onChanged} onChange={() => onChange(key.id)} /> : '–'),
      },
    ]}
  />
)
