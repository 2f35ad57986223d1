import { useSignal } from '@preact/signals'
import type { NewKeyJson, OwnKeyJson } from '../../routes/keys.ts'
import { TextField, WhenLoaded } from '../components/controls.tsx'
import { Form, splitList } from '../components/form.tsx'
import type { KeyAnswer } from '../components/key-actions.tsx'
import { request, useRequest } from '../request.ts'
import { texts } from '../texts.ts'
import { session } from './developer-session.ts'
import { ChangeKey } from './change-key.tsx'
import { KeyTables } from './key-tables.tsx'
import { newKey, ShowNewKey } from './new-key.tsx'
import { Restrictions } from './restrictions.tsx'

const text = texts.keys

export const Keys = () => {
  const keys = useRequest<readonly OwnKeyJson[]>('/keys')
  const changed = useSignal<string | undefined>(undefined)
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
      <WhenLoaded from={keys}>
        {found => (
          <>
            {found
              .filter(({ id }) => id === changed.value)
              .map(key => (
                <ChangeKey key={key.id} apiKey={key} onSaved={keys.reload} onClosed={() => (changed.value = undefined)} />
              ))}
            <KeyTables keys={found} mayChange={mayChange} onChanged={onChanged} onChange={id => (changed.value = id)} />
          </>
        )}
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
          <Restrictions errorOf={errorOf} />
        </>
      )}
    </Form>
  )
}
