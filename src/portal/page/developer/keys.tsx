import { signal } from '@preact/signals'
import type { NewKeyJson, OwnKeyJson } from '../../routes/keys.ts'
import { CopyText, TextField, WhenLoaded } from '../components/controls.tsx'
import { Form, splitList } from '../components/form.tsx'
import { KeyActions } from '../components/key-actions.tsx'
import type { KeyAnswer } from '../components/key-actions.tsx'
import { Table } from '../components/table.tsx'
import { formatHourOfDay, formatNumber, formatTime } from '../format.ts'
import { request, useRequest } from '../request.ts'
import { texts } from '../texts.ts'
import { session } from './developer-session.ts'

const text = texts.keys

/** The key that was just created, in memory alone: Keys shows it until it is closed, Try it offers it. */
export const newKey = signal<NewKeyJson | undefined>(undefined)

export const Keys = () => {
  const keys = useRequest<readonly OwnKeyJson[]>('/keys')
  const mayChange = session.value?.person.role !== 'viewer'
  const onChanged = (answer: KeyAnswer): void => {
    if ('key' in answer) newKey.value = answer
    keys.reload()
  }
  return (
    <>
      {mayChange ? <CreateKey onCreated={onChanged} /> : <p>{text.viewerOnly}</p>}
      {newKey.value !== undefined && <ShowNewKey created={newKey.value} />}
      <WhenLoaded from={keys}>
        {found => (found.length === 0 ? <p>{text.none}</p> : <KeyTable keys={found} mayChange={mayChange} onChanged={onChanged} />)}
      </WhenLoaded>
    </>
  )
}

const CreateKey = ({ onCreated }: { onCreated(created: NewKeyJson): void }) => {
  const create = async (values: FormData): Promise<void> => {
    const created = await request<NewKeyJson>('POST', '/keys', {
      name: String(values.get('name')).trim(),
      networks: splitList(values.get('networks')),
      methods: splitList(values.get('methods')),
      origins: splitList(values.get('origins')),
      ips: splitList(values.get('ips')),
      ...(values.get('dailyCredits') !== '' && { dailyCredits: Number(values.get('dailyCredits')) }),
      ...(values.get('rate') !== '' && { rate: String(values.get('rate')).trim() }),
      ...(values.get('burst') !== '' && { burst: Number(values.get('burst')) }),
      ...(values.get('days') !== '' && { days: Number(values.get('days')) }),
    })
    onCreated(created)
  }
  return (
    <Form title={text.create} send={create}>
      {errorOf => (
        <>
          <TextField label={text.name} name="name" required error={errorOf('name')} />
          <TextField label={text.networks} name="networks" help={text.networksHelp} error={errorOf('networks')} />
          <TextField label={text.methods} name="methods" help={text.methodsHelp} error={errorOf('methods')} />
          <TextField label={text.origins} name="origins" help={text.originsHelp} error={errorOf('origins')} />
          <TextField label={text.ips} name="ips" help={text.ipsHelp} error={errorOf('ips')} />
          <TextField label={text.limit} name="dailyCredits" type="number" help={text.limitHelp} error={errorOf('dailyCredits')} />
          <TextField label={text.rate} name="rate" help={text.rateHelp} error={errorOf('rate')} />
          <TextField label={text.burst} name="burst" type="number" help={text.burstHelp} error={errorOf('burst')} />
          <TextField label={text.days} name="days" type="number" help={text.daysHelp} error={errorOf('days')} />
        </>
      )}
    </Form>
  )
}

const ShowNewKey = ({ created }: { readonly created: NewKeyJson }) => (
  <section class="card new-key" aria-label={text.newKey} role="status">
    <h2>
      {text.newKey}: {created.name}
    </h2>
    <p data-testid="new-key">
      <CopyText text={created.key} label={text.newKey} />
    </p>
    <p>{text.saveNow}</p>
    <button type="button" onClick={() => (newKey.value = undefined)}>
      {texts.close}
    </button>
  </section>
)

/** What the key has used today, of how much. */
const formatLimit = ({ dailyCredits, usedToday }: OwnKeyJson): string =>
  dailyCredits === null ? texts.none : `${formatNumber(usedToday ?? 0)} / ${formatNumber(dailyCredits)}`

const formatRate = ({ rate, burst }: OwnKeyJson): string =>
  rate === null ? texts.none : burst === null ? rate : `${rate}, ${text.burst} ${formatNumber(burst)}`

interface KeyTableProps {
  readonly keys: readonly OwnKeyJson[]
  readonly mayChange: boolean
  onChanged(answer: KeyAnswer): void
}

const KeyTable = ({ keys, mayChange, onChanged }: KeyTableProps) => (
  <Table
    caption={texts.pages.keys}
    keyOf={key => key.id}
    rows={keys.toReversed()}
    columns={[
      { title: text.name, cell: key => key.name || key.id },
      { title: text.key, cell: key => <code>…{key.hint}</code> },
      { title: text.networks, cell: key => key.networks.join(', ') || texts.all },
      { title: text.methods, cell: key => key.methods.join(', ') || texts.all },
      { title: text.origins, cell: key => key.origins.join(', ') || texts.all },
      { title: text.ips, cell: key => key.ips.join(', ') || texts.all },
      { title: text.limit, cell: formatLimit },
      { title: text.rate, cell: formatRate },
      { title: text.created, cell: key => formatTime(key.created) },
      { title: text.lastUsed, cell: key => formatHourOfDay(key.lastUsed, texts.never) },
      { title: text.expires, cell: key => formatTime(key.expires, texts.never) },
      { title: text.state, cell: key => <code>{text.states[key.state]}</code> },
      {
        title: text.actions,
        cell: key =>
          mayChange && key.state !== 'revoked' && key.state !== 'expired' ? (
            <KeyActions apiKey={key} mayRotate onChanged={onChanged} />
          ) : (
            '–'
          ),
      },
    ]}
  />
)
