import { useSignal } from '@preact/signals'
import type { KeyJson } from '../../key-settings.ts'
import { request } from '../request.ts'
import { texts } from '../texts.ts'
import { Badge } from './badge.tsx'
import type { Tone } from './badge.tsx'
import { ConfirmDialog } from './dialog.tsx'
import { Menu } from './menu.tsx'
import { showToast } from './toast.tsx'

const text = texts.keys

/** A key that was just made: the only answer that has the key itself. */
export interface IssuedKey extends KeyJson {
  readonly key: string
}

const tones: Readonly<Record<KeyJson['state'], Tone>> = { active: 'ok', suspended: 'warn', expired: 'neutral', revoked: 'danger' }

export const KeyState = ({ state }: Pick<KeyJson, 'state'>) => <Badge tone={tones[state]}>{text.states[state]}</Badge>

/** What the gateway answers to an action: a new key where one was rotated. */
export type KeyAnswer = KeyJson | IssuedKey

interface KeyActionsProps {
  readonly apiKey: Pick<KeyJson, 'id' | 'name' | 'hint' | 'state'>
  /** How much it was used. */
  readonly use?: string | undefined
  onChanged(answer: KeyAnswer): void
  /** Asks for the form that changes the key; undefined where there is none. */
  onChange?(): void
}

/** Changes, rotates, suspends, resumes and revokes a key. To revoke it cannot be undone, so it is asked for twice. */
export const KeyActions = ({ apiKey: { id, name, hint, state }, use, onChanged, onChange }: KeyActionsProps) => {
  const isRevoking = useSignal(false)
  const isSending = useSignal(false)
  const title = name || hint
  const send = async (action: string): Promise<void> => onChanged(await request<KeyAnswer>('POST', `/keys/${id}/${action}`, {}))
  const run = async (action: 'rotate' | 'suspend' | 'resume'): Promise<void> => {
    if (isSending.value) return
    isSending.value = true
    try {
      await send(action)
      showToast(`${text.did[action]} ${title}`)
    } catch (reason) {
      showToast((reason as Error).message, 'danger') // request() throws nothing else
    } finally {
      isSending.value = false
    }
  }
  const action = (name: 'rotate' | 'suspend' | 'resume') => ({ label: text[name], onSelect: () => void run(name) })
  return (
    <span class="actions">
      {onChange !== undefined && (
        <button type="button" class="quiet" aria-label={`${text.change} ${title}`} onClick={onChange}>
          {text.change}
        </button>
      )}
      <Menu
        label={`${text.actions}: ${title}`}
        items={[
          ...(state === 'active' ? [action('rotate')] : []),
          action(state === 'suspended' ? 'resume' : 'suspend'),
          { label: text.revoke, isDangerous: true, onSelect: () => (isRevoking.value = true) },
        ]}
      />
      {isRevoking.value && (
        <ConfirmDialog
          title={`${text.confirmRevoke} ${name} …${hint}`}
          action={text.revoke}
          confirm={() => send('revoke')}
          onClose={() => (isRevoking.value = false)}
        >
          {use === undefined ? text.revokeHelp : `${use}. ${text.revokeHelp}`}
        </ConfirmDialog>
      )}
    </span>
  )
}
