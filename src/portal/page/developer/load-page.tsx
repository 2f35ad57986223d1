import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { NotLoaded } from '../components/controls.tsx'
import { Skeleton } from '../components/skeleton.tsx'

type Page = () => ComponentChildren

/** A page whose code is loaded when it is opened first: the others are smaller without it. */
export const loadPage = (load: () => Promise<Page>): Page => {
  const state = signal<{ readonly Loaded: Page } | 'failed' | undefined>(undefined)
  return () => {
    useEffect(() => {
      if (state.peek() === undefined)
        load().then(
          Loaded => (state.value = { Loaded }),
          () => (state.value = 'failed'),
        )
    }, [])
    // A gateway of another version has other files: the whole page is loaded anew.
    if (state.value === 'failed') return <NotLoaded retry={() => location.reload()} />
    return state.value === undefined ? <Skeleton height={24} /> : <state.value.Loaded />
  }
}
