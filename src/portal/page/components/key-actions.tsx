import { useSignal } from '@preact/signals'
import type { KeyJson } from '../../key-settings.ts'
import { request } from '../request.ts'
import { texts } from '../texts.ts'
import { Notice, RowButton, useConfirmation } from './controls.tsx'

const text = texts.keys

/** A key that was just made: the only answer that has the key itself. */
export interface IssuedKey extends KeyJson {
  readonly key: string
}

/** What the gateway answers to an action: a new key where one was rotated. */
export type KeyAnswer = KeyJson | IssuedKey

interface KeyActionsProps {
  readonly apiKey: Pick<KeyJson, 'id' | 'name' | 'hint' | 'state'>
  onChanged(answer: KeyAnswer): void
  /** Asks for the form that changes the key; undefined where there is none. */
  onChange?(): void
}

/** Rotates, suspends, resumes and revokes a key. To revoke it cannot be undone, so it is asked for twice. */
export const KeyActions = ({ apiKey: { id, name, hint, state }, onChanged, onChange }: KeyActionsProps) => {
  const revoking = useConfirmation()
  const isSending = useSignal(false)
  const error = useSignal<string | undefined>(undefined)
  const send = async (action: string): Promise<void> => {
    if (isSending.value) return
    isSending.value = true
    try {
      onChanged(await request<KeyAnswer>('POST', `/keys/${id}/${action}`, {}))
      error.value = undefined
    } catch (reason) {
      error.value = (reason as Error).message // request() throws nothing else
    } finally {
      isSending.value = false
      revoking.cancel()
    }
  }
  const button = (action: string, label: string) => <RowButton label={label} of={name || hint} onClick={() => void send(action)} />
  if (revoking.isAsking) {
    return (
      <span class="actions">
        {text.confirmRevoke}
        <button type="button" class="danger" onClick={() => void send('revoke')}>
          {text.revoke}
        </button>
        <button type="button" class="quiet" ref={revoking.cancelRef} onClick={revoking.cancel}>
          {texts.cancel}
        </button>
      </span>
    )
  }
  return (
    <span class="actions">
      {onChange !== undefined && <RowButton label={text.change} of={name || hint} onClick={onChange} />}
      {state === 'suspended' ? button('resume', text.resume) : button('suspend', text.suspend)}
      {state === 'active' && button('rotate', text.rotate)}
      <button type="button" class="quiet" aria-label={`${text.revokeFor} ${name || hint}`} ref={revoking.askRef} onClick={revoking.ask}>
        {text.revoke}
      </button>
      <Notice text={error.value} />
    </span>
  )
}
