import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { NotLoaded } from '../components/controls.tsx'
import { Skeleton } from '../components/skeleton.tsx'

type Component = () => ComponentChildren

/** Code of the page that is loaded when it is shown first, or before: the first load of other pages is smaller without it. */
export const loadLater = <Code extends object>(importCode: () => Promise<Code>) => {
  const state = signal<{ readonly code: Code } | 'failed' | undefined>(undefined)
  const load = async (): Promise<void> => {
    if (state.peek() !== undefined) return
    state.value = await importCode().then(
      code => ({ code }),
      () => 'failed' as const,
    )
  }
  /** One of its components, and what stands in its place while it is loaded. */
  const component =
    (choose: (code: Code) => Component, meanwhile: ComponentChildren = <Skeleton height={24} />): Component =>
    () => {
      useEffect(() => void load(), [])
      // A gateway of another version has other files: the whole page is loaded anew.
      if (state.value === 'failed') return meanwhile === null ? null : <NotLoaded retry={() => location.reload()} />
      if (state.value === undefined) return meanwhile
      const Loaded = choose(state.value.code)
      return <Loaded />
    }
  return { load, component }
}
