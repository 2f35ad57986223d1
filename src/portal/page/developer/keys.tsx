import { useSignal } from '@preact/signals'
import type { OwnKeyJson } from '../../routes/keys.ts'
import { WhenLoaded } from '../components/controls.tsx'
import type { IssuedKey, KeyAnswer } from '../components/key-actions.tsx'
import { CreateKey } from '../components/key-form.tsx'
import { request, useRequest } from '../request.ts'
import { texts } from '../texts.ts'
import { session } from './developer-session.ts'
import { ChangeKey } from './change-key.tsx'
import { KeyTables } from './key-tables.tsx'
import { ShowNewKey } from './new-key.tsx'
import { newKey, showNewKey } from './tab-key.ts'

const text = texts.keys

export const Keys = () => {
  const keys = useRequest<readonly OwnKeyJson[]>('/keys')
  const changed = useSignal<string | undefined>(undefined)
  const mayChange = session.value?.person.role !== 'viewer'
  const onChanged = (answer: KeyAnswer): void => {
    if ('key' in answer) showNewKey(answer)
    keys.reload()
  }
  const create = async (settings: object): Promise<void> => onChanged(await request<IssuedKey>('POST', '/keys', settings))
  return (
    <>
      {mayChange ? <CreateKey create={create} /> : <p>{text.viewerOnly}</p>}
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
