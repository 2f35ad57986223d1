import { signal } from '@preact/signals'
import type { IssuedKey } from '../components/key-actions.tsx'

/** The key that was just created, in memory alone, until it is closed. */
export const newKey = signal<IssuedKey | undefined>(undefined)

/** The key that calls from this tab have: the one that was created or typed last. It is in memory alone. */
export const tabKey = signal('')

export const showNewKey = (created: IssuedKey): void => {
  newKey.value = created
  tabKey.value = created.key
}

/** The id of the key that was saved since it was created, as somebody has copied it or says so. */
export const savedKey = signal<string | undefined>(undefined)

/** The guide to the first call: once it is shown it stays, also when the first call has arrived, until it is closed. */
export const isGuideOpen = signal(false)

/** In place of a key in URLs and code. */
export const keyPlaceholder = 'API_KEY'
