import { signal, useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import type { PortalMethod } from '../../portal-services.ts'
import type { OwnKeyJson } from '../../routes/keys.ts'
import type { NetworkJson } from '../../routes/networks.ts'
import type { UsageAnswer } from '../../routes/usage.ts'
import { ChangeKey } from '../components/change-key.tsx'
import { WhenLoaded } from '../components/controls.tsx'
import { Dialog } from '../components/dialog.tsx'
import { EmptyState } from '../components/empty-state.tsx'
import { Icon } from '../components/icon.tsx'
import type { IssuedKey, KeyAnswer } from '../components/key-actions.tsx'
import { CreateKey } from '../components/key-form.tsx'
import type { KeyOptions } from '../components/key-form.tsx'
import { get, request, useRequest } from '../request.ts'
import { developerTexts } from './developer-texts.ts'
import { session } from './developer-session.ts'
import { KeyTables } from './key-tables.tsx'
import type { KeysUse } from './key-tables.tsx'
import { ShowNewKey } from './new-key.tsx'
import { namesWithoutRates } from './rate-limits.ts'
import { forgetKey, newKey, showNewKey } from './tab-key.ts'

const text = developerTexts.keys

const isCreating = signal(false)

const mayChange = (): boolean => session.value?.person.role !== 'viewer'

const noUse: KeysUse = { times: [], groups: [] }

/** Beside the title of the page. */
export const KeysActions = () =>
  mayChange() ? (
    <button type="button" onClick={() => (isCreating.value = true)}>
      <Icon name="plus" />
      {text.create}
    </button>
  ) : null

export const Keys = () => {
  const keys = useRequest<readonly OwnKeyJson[]>('/keys')
  const usage = useRequest<UsageAnswer>('/usage?by=key&range=24h')
  const networks = useRequest<readonly NetworkJson[]>(keys.data.value?.some(({ rate }) => rate !== null) ? '/networks' : undefined)
  const changed = useSignal<string | undefined>(undefined)
  const before = useRef(newKey.peek()).current
  // The dialog belongs to this page.
  useEffect(() => () => void (isCreating.value = false), [])
  const onChanged = (answer: KeyAnswer): void => {
    if ('key' in answer) showNewKey(answer)
    else if (answer.state === 'revoked') forgetKey(answer)
    keys.reload()
  }
  const closeCreation = () => void (isCreating.value = false)
  const create = async (settings: object): Promise<void> => {
    onChanged(await request<IssuedKey>('POST', '/keys', settings))
    closeCreation()
  }
  return (
    <>
      {!mayChange() && <p class="lead">{text.viewerOnly}</p>}
      {/* There before the key: a region that comes with its text is not announced everywhere. */}
      <div role="status">{newKey.value !== undefined && <ShowNewKey created={newKey.value} isNew={newKey.value !== before} />}</div>
      <WhenLoaded from={keys}>
        {found => (
          <>
            {found.length === 0 ? (
              <EmptyState icon="keys" title={text.none} actions={<KeysActions />}>
                {text.noneHelp}
              </EmptyState>
            ) : (
              <KeyTables
                keys={found}
                use={usage.data.value ?? noUse}
                networks={networks.data.value}
                mayChange={mayChange()}
                onChanged={onChanged}
                onChange={id => (changed.value = id)}
              />
            )}
            {found
              .filter(({ id }) => id === changed.value)
              .map(key => (
                <WithKeyOptions key={key.id}>
                  {options => <ChangeKey {...options} apiKey={key} onSaved={keys.reload} onClose={() => (changed.value = undefined)} />}
                </WithKeyOptions>
              ))}
          </>
        )}
      </WhenLoaded>
      {isCreating.value && (
        <Dialog title={text.create} onClose={closeCreation}>
          <WithKeyOptions>{options => <CreateKey {...options} create={create} onCancel={closeCreation} />}</WithKeyOptions>
        </Dialog>
      )}
    </>
  )
}

/** The networks, and the methods of all of them, once they are known: until then, anything may be typed. */
const WithKeyOptions = ({ children }: { children(options: KeyOptions): ComponentChildren }) => {
  const options = useSignal<KeyOptions>({})
  useEffect(() => {
    void readKeyOptions().then(
      found => (options.value = found),
      // Without them the form still works.
      () => undefined,
    )
  }, [])
  return children(options.value)
}

const readKeyOptions = async (): Promise<KeyOptions> => {
  const found = await get<readonly NetworkJson[]>('/networks')
  const networks = found.map(({ name }) => name)
  const methods = await Promise.all(networks.map(name => get<readonly PortalMethod[]>(`/networks/${name}/methods`)))
  return {
    networks,
    methods: [...new Set(methods.flat().map(({ name }) => name))].toSorted(),
    withoutRates: namesWithoutRates(found),
  }
}
