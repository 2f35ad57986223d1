import { signal } from '@preact/signals'
import type { IssuedKey } from '../components/key-actions.tsx'

/** The key that was just created, in memory alone, until it is closed. */
export const newKey = signal<IssuedKey | undefined>(undefined)

/** The keys that were created in this tab, or typed here once: in memory alone. */
export const knownKeys = signal<readonly string[]>([])

/** The key that calls and URLs of this tab have: one of them, or what is typed. */
export const tabKey = signal('')

const keyPattern = /^tg_\w{38}$/

export const isKey = (typed: string): boolean => keyPattern.test(typed)

/** Keys that are not whole are not kept. */
export const keepKey = (typed: string): void => {
  if (isKey(typed) && !knownKeys.value.includes(typed)) knownKeys.value = [...knownKeys.value, typed]
}

/** The one with these last characters. */
export const findKey = ({ hint }: { readonly hint: string }): string | undefined => knownKeys.value.find(key => key.endsWith(hint))

export const showNewKey = (created: IssuedKey): void => {
  newKey.value = created
  tabKey.value = created.key
  keepKey(created.key)
}

/** Nobody is to save, or to call with, a key that is refused. */
export const forgetKey = ({ id, hint }: { readonly id: string; readonly hint: string }): void => {
  if (id === newKey.value?.id) newKey.value = undefined
  if (tabKey.value.endsWith(hint)) tabKey.value = ''
  knownKeys.value = knownKeys.value.filter(key => !key.endsWith(hint))
}

/** The id of the key that was saved since it was created, as somebody has copied it or says so. */
export const savedKey = signal<string | undefined>(undefined)

/** The guide to the first call: once it is shown it stays, also when the first call has arrived, until it is closed. */
export const isGuideOpen = signal(false)

/** In place of a key in URLs and code. */
export const keyPlaceholder = 'API_KEY'

/** The key of this tab for URLs and code, once it is whole. */
export const validKey = (): string | undefined => (isKey(tabKey.value) ? tabKey.value : undefined)
