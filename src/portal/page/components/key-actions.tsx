import { useSignal } from '@preact/signals'
import type { Key, NewKey } from '../api.ts'
import { newKey } from '../new-key.ts'
import { request } from '../request.ts'
import { texts } from '../texts.ts'
import { Notice } from './controls.tsx'

const text = texts.keys

interface KeyActionsProps {
  readonly apiKey: Pick<Key, 'id' | 'name' | 'hint' | 'state'>
  readonly mayRotate: boolean
  onChanged(): void
}

/** Rotates, suspends, resumes and revokes a key. To revoke it cannot be undone, so it is asked for twice. */
export const KeyActions = ({ apiKey: { id, name, hint, state }, mayRotate, onChanged }: KeyActionsProps) => {
  const isAsking = useSignal(false)
  const isSending = useSignal(false)
  const error = useSignal<string | undefined>(undefined)
  const send = async (action: string): Promise<void> => {
    if (isSending.value) return
    isSending.value = true
    try {
      const answer = await request<Key | NewKey>('POST', `/keys/${id}/${action}`, {})
      error.value = undefined
      if ('key' in answer) newKey.value = answer
      onChanged()
    } catch (reason) {
      error.value = (reason as Error).message // request() throws nothing else
    } finally {
      isSending.value = false
      isAsking.value = false
    }
  }
  const button = (action: string, label: string) => (
    <button type="button" class="quiet" aria-label={`${label} ${name || hint}`} onClick={() => void send(action)}>
      {label}
    </button>
  )
  if (isAsking.value) {
    return (
      <span class="actions">
        {text.confirmRevoke}
        <button type="button" class="danger" onClick={() => void send('revoke')}>
          {text.revoke}
        </button>
        <button type="button" class="quiet" onClick={() => (isAsking.value = false)}>
          {texts.cancel}
        </button>
      </span>
    )
  }
  return (
    <span class="actions">
      {state === 'suspended' ? button('resume', text.resume) : button('suspend', text.suspend)}
      {mayRotate && state === 'active' && button('rotate', text.rotate)}
      <button type="button" class="quiet" aria-label={`${text.revokeFor} ${name || hint}`} onClick={() => (isAsking.value = true)}>
        {text.revoke}
      </button>
      <Notice text={error.value} />
    </span>
  )
}
