import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useId, useRef } from 'preact/hooks'

interface TabsProps {
  readonly label: string
  readonly tabs: readonly { readonly id: string; readonly title: string; content(): ComponentChildren }[]
}

/** One of several views at a time. The arrows move between the tabs. */
export const Tabs = ({ label, tabs }: TabsProps) => {
  const chosen = useSignal(tabs[0]?.id)
  const id = useId()
  const list = useRef<HTMLDivElement>(null)
  const current = tabs.find(tab => tab.id === chosen.value) ?? tabs[0]
  const move = (event: KeyboardEvent): void => {
    const index = tabs.findIndex(tab => tab.id === current?.id)
    const next = { ArrowRight: index + 1, ArrowLeft: index - 1 + tabs.length, Home: 0, End: tabs.length - 1 }[event.key]
    if (next === undefined) return
    event.preventDefault()
    chosen.value = tabs[next % tabs.length]?.id
    list.current?.querySelectorAll('button')[next % tabs.length]?.focus()
  }
  if (current === undefined) return null
  return (
    <div>
      <div ref={list} class="tabs" role="tablist" tabIndex={-1} aria-label={label} onKeyDown={move}>
        {tabs.map(tab => (
          <button
            key={tab.id}
            type="button"
            role="tab"
            id={`${id}-${tab.id}`}
            aria-selected={tab === current}
            aria-controls={`${id}-panel`}
            tabIndex={tab === current ? 0 : -1}
            onClick={() => (chosen.value = tab.id)}
          >
            {tab.title}
          </button>
        ))}
      </div>
      <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${current.id}`}>
        {current.content()}
      </div>
    </div>
  )
}

interface SegmentsProps<Value extends string> {
  readonly label: string
  readonly options: readonly { readonly value: Value; readonly label: ComponentChildren }[]
  readonly value: Value
  onChange(value: Value): void
}

/** A choice of few, all of them seen. */
export const Segments = <Value extends string>({ label, options, value, onChange }: SegmentsProps<Value>) => {
  const name = useId()
  return (
    <fieldset class="segments" aria-label={label}>
      {options.map(option => (
        <label key={option.value}>
          <input type="radio" name={name} checked={option.value === value} onChange={() => onChange(option.value)} />
          {option.label}
        </label>
      ))}
    </fieldset>
  )
}
