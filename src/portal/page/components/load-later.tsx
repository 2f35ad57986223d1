import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { NotLoaded } from './controls.tsx'
import { Skeleton } from './skeleton.tsx'

type Component<Props> = (props: Props) => ComponentChildren

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
    <Props extends object = object>(
      choose: (code: Code) => Component<Props>,
      meanwhile: ComponentChildren = <Skeleton height={24} />,
    ): Component<Props> =>
    props => {
      useEffect(() => void load(), [])
      // A gateway of another version has other files: the whole page is loaded anew.
      if (state.value === 'failed') return meanwhile === null ? null : <NotLoaded retry={() => location.reload()} />
      if (state.value === undefined) return meanwhile
      const Loaded = choose(state.value.code)
      return <Loaded {...props} />
    }
  return { load, component }
}
