import { useSignal } from '@preact/signals'
import type { Signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { get } from './request.ts'

interface Loaded<T> {
  readonly data: Signal<T | undefined>
  readonly error: Signal<string | undefined>
  reload(): void
}

/** How often figures on a page are read again. */
const refreshIntervalMs = 15_000

/** Reads from the API, and again while the page is shown. After an error the last data stay. */
export const useRequest = <T>(path: string): Loaded<T> => {
  const data = useSignal<T | undefined>(undefined)
  const error = useSignal<string | undefined>(undefined)
  const load = (isCurrent: () => boolean) =>
    get<T>(path).then(
      value => {
        if (!isCurrent()) return
        data.value = value
        error.value = undefined
      },
      (reason: Error) => {
        if (isCurrent()) error.value = reason.message
      },
    )
  useEffect(() => {
    let isShown = true
    const isCurrent = () => isShown
    void load(isCurrent)
    const timer = setInterval(() => document.visibilityState === 'visible' && void load(isCurrent), refreshIntervalMs)
    return () => {
      isShown = false
      clearInterval(timer)
    }
  }, [path])
  return { data, error, reload: () => void load(() => true) }
}
