import { signal } from '@preact/signals'
import { texts } from '../texts.ts'
import { Icon } from './icon.tsx'

interface Toast {
  readonly id: number
  readonly text: string
  readonly tone: 'ok' | 'danger'
}

const toasts = signal<readonly Toast[]>([])

let lastId = 0

const shownMs = 6_000

const remove = (id: number): void => {
  toasts.value = toasts.value.filter(toast => toast.id !== id)
}

/** Says in a corner, for a while, how something ended that is not seen elsewhere. */
export const showToast = (text: string, tone: Toast['tone'] = 'ok'): void => {
  const id = (lastId += 1)
  toasts.value = [...toasts.value.slice(-2), { id, text, tone }]
  // What went wrong stays until it is closed.
  if (tone === 'ok') setTimeout(() => remove(id), shownMs)
}

/** Once on a page: there before what it says, or that would not be announced everywhere. */
export const Toasts = () => (
  <div class="toasts" role="status" aria-live="polite">
    {toasts.value.map(({ id, text, tone }) => (
      <div key={id} class={`toast ${tone}`}>
        <Icon name={tone === 'ok' ? 'check' : 'stop'} />
        <span>{text}</span>
        <button type="button" class="plain icon-button" aria-label={`${texts.close}: ${text}`} onClick={() => remove(id)}>
          <Icon name="close" />
        </button>
      </div>
    ))}
  </div>
)
