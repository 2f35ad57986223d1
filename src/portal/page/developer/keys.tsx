import type { NewKeyJson, OwnKeyJson } from '../../routes/keys.ts'
import { TextField, WhenLoaded } from '../components/controls.tsx'
import { Form, splitList } from '../components/form.tsx'
import type { KeyAnswer } from '../components/key-actions.tsx'
import { request, useRequest } from '../request.ts'
import { texts } from '../texts.ts'
import { session } from './developer-session.ts'
import { KeyTables } from './key-tables.tsx'
import { newKey, ShowNewKey } from './new-key.tsx'

const text = texts.keys

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
      {/* There before the key: a region that comes with its text is not announced everywhere. */}
      <div role="status">{newKey.value !== undefined && <ShowNewKey created={newKey.value} />}</div>
      <WhenLoaded from={keys}>{found => <KeyTables keys={found} mayChange={mayChange} onChanged={onChanged} />}</WhenLoaded>
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
          <Restrictions errorOf={errorOf} />
        </>
      )}
    </Form>
  )
}

const restrictions = [
  { name: 'networks', label: text.networks, help: text.networksHelp },
  { name: 'methods', label: text.methods, help: text.methodsHelp },
  { name: 'origins', label: text.origins, help: text.originsHelp },
  { name: 'ips', label: text.ips, help: text.ipsHelp },
  { name: 'dailyCredits', label: text.limit, help: text.limitHelp, type: 'number' },
  { name: 'rate', label: text.rate, help: text.rateHelp },
  { name: 'burst', label: text.burst, help: text.burstHelp, type: 'number' },
  { name: 'days', label: text.days, help: text.daysHelp, type: 'number' },
] as const

/** Most keys have none: the fields are shown when asked for, or when one of them is wrong. */
const Restrictions = ({ errorOf }: { errorOf(field: string): string | undefined }) => {
  const fields = restrictions.map(field => ({ ...field, error: errorOf(field.name) }))
  return (
    <details
      class="field"
      open={fields.some(({ error }) => error !== undefined) || undefined}
      onInvalidCapture={event => (event.currentTarget.open = true)}
    >
      <summary>{text.restrictions}</summary>
      {fields.map(field => (
        <TextField key={field.name} {...field} />
      ))}
    </details>
  )
}
