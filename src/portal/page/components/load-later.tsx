import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { texts } from '../texts.ts'
import { NotLoaded } from './controls.tsx'
import { Skeleton } from './skeleton.tsx'

type Component<Props> = (props: Props) => ComponentChildren

/** A gateway of another version has other files. */
const loadPageAgain = (): void => location.reload()

/** The button that asked for it may be far away. */
const scrollIntoView = (part: HTMLElement | null): void => part?.scrollIntoView({ block: 'nearest' })

/** In the place of a button, or of a dialog. */
const MissingPart = () => (
  <p class="error" role="alert" ref={scrollIntoView}>
    {texts.notLoaded}{' '}
    <button type="button" class="quiet small" onClick={loadPageAgain}>
      {texts.loadPageAgain}
    </button>
  </p>
)

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
  /** One of its components, what stands in its place while it is loaded, and what where it cannot be. */
  const component =
    <Props extends object = object>(
      choose: (code: Code) => Component<Props>,
      meanwhile: ComponentChildren = <Skeleton height={24} />,
      missing: ComponentChildren = meanwhile === null ? <MissingPart /> : <NotLoaded retry={loadPageAgain} />,
    ): Component<Props> =>
    props => {
      useEffect(() => void load(), [])
      if (state.value === 'failed') return missing
      if (state.value === undefined) return meanwhile
      const Loaded = choose(state.value.code)
      return <Loaded {...props} />
    }
  return { load, component }
}
