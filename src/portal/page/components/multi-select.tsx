import { useSignal } from '@preact/signals'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { texts } from '../texts.ts'
import { Field } from './controls.tsx'
import { Icon } from './icon.tsx'
import { placeBelow } from './place.ts'

interface MultiSelectProps {
  readonly label: string
  /** Of the field of the form, which has the chosen values, separated by commas. */
  readonly name: string
  readonly options: readonly string[]
  readonly value?: readonly string[]
  /** What none means. */
  readonly placeholder: string
  readonly help?: string
  readonly error?: string | undefined
  /** What is typed may be none of the options, such as the URL of a page. */
  readonly isFree?: boolean
}

/** More are found by typing. */
const maxShown = 50

/** Several of many, as chips; typing finds more. The arrows and Enter choose, Backspace takes the last one away. */
export const MultiSelect = ({ label, name, options, value = [], placeholder, help, error, isFree = false }: MultiSelectProps) => {
  const chosen = useSignal<readonly string[]>(value)
  const typed = useSignal('')
  const isOpen = useSignal(false)
  const active = useSignal(0)
  const hidden = useRef<HTMLInputElement>(null)
  const input = useRef<HTMLInputElement>(null)
  const list = useRef<HTMLDivElement>(null)
  const followed = useRef(value)
  useEffect(() => {
    // What is stored meanwhile is shown, as in a field of text, unless somebody has edited it here.
    if (chosen.value.join() === followed.current.join()) chosen.value = value
    followed.current = value
    const { form } = hidden.current ?? {}
    const reset = (): void => void ([chosen.value, typed.value] = [value, ''])
    form?.addEventListener('reset', reset)
    return () => form?.removeEventListener('reset', reset)
  }, [value.join()])
  const isShown = isOpen.value && options.length > 0
  useLayoutEffect(() => {
    const [element, opener] = [list.current, list.current?.previousElementSibling]
    if (!isShown || !element || !opener) return
    element.showPopover()
    const place = (): void => placeBelow(element, opener, 'opener')
    place()
    // A phone scrolls the field into sight once its keyboard is there: the list follows it.
    const follow = ({ target }: Event): void => void (target !== element && place())
    addEventListener('scroll', follow, true)
    addEventListener('resize', follow)
    visualViewport?.addEventListener('resize', follow)
    return () => {
      removeEventListener('scroll', follow, true)
      removeEventListener('resize', follow)
      visualViewport?.removeEventListener('resize', follow)
      if (element.isConnected) element.hidePopover()
    }
  }, [isShown, chosen.value, typed.value])
  const findOptions = (): readonly string[] => {
    const search = typed.value.trim().toLowerCase()
    return options.filter(option => !chosen.value.includes(option) && option.toLowerCase().includes(search)).slice(0, maxShown)
  }
  const found = findOptions()
  const add = (added: string): void => {
    const values = added.split(/[,\s]+/).filter(each => each !== '' && !chosen.value.includes(each))
    ;[chosen.value, typed.value, active.value] = [[...chosen.value, ...values], '', 0]
    input.current?.focus()
  }
  const remove = (removed: string): void => {
    chosen.value = chosen.value.filter(each => each !== removed)
    input.current?.focus()
  }
  /** What is typed is taken as it is where it may be, or where the gateway shall say what is wrong with it. */
  const takeTyped = (): void => {
    if (typed.value.trim() !== '') add(typed.value)
    isOpen.value = false
  }
  const onKeyDown = (event: KeyboardEvent): void => {
    // Keys may come before what was typed is shown, and after Esc has closed the list.
    const isTyped = typed.value.trim() !== ''
    const found = findOptions()
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (step !== undefined) {
      event.preventDefault()
      active.value = isOpen.value && found.length > 0 ? (active.value + step + found.length) % found.length : 0
      isOpen.value = true
    } else if (event.key === 'Enter' && (isOpen.value || isTyped)) {
      const option = isFree && isTyped ? undefined : found[active.value]
      event.preventDefault()
      if (option === undefined) takeTyped()
      else add(option)
    } else if (event.key === ',') {
      event.preventDefault()
      takeTyped()
    } else if (event.key === 'Escape' && isOpen.value) {
      // The dialog around it stays.
      event.preventDefault()
      event.stopPropagation()
      isOpen.value = false
    } else if (event.key === 'Backspace' && typed.value === '') {
      chosen.value = chosen.value.slice(0, -1)
    }
  }
  return (
    <Field label={label} help={help} error={error}>
      {({ id, describedBy }) => (
        <div class="multi-select">
          <input ref={hidden} type="hidden" name={name} value={chosen.value.join(', ')} />
          <div class={error === undefined ? 'chips' : 'chips invalid'}>
            {chosen.value.map(each => (
              <span key={each} class="chip">
                {each}
                <button type="button" aria-label={`${texts.remove} ${each}`} onClick={() => remove(each)}>
                  <Icon name="close" />
                </button>
              </span>
            ))}
            <input
              ref={input}
              id={id}
              value={typed.value}
              placeholder={chosen.value.length === 0 ? placeholder : undefined}
              role="combobox"
              autocomplete="off"
              spellcheck={false}
              aria-expanded={isShown}
              aria-controls={`${id}-options`}
              aria-activedescendant={isOpen.value && found[active.value] !== undefined ? `${id}-${active.value}` : undefined}
              aria-describedby={describedBy}
              aria-invalid={error !== undefined}
              onInput={event => ([typed.value, isOpen.value, active.value] = [event.currentTarget.value, true, 0])}
              onClick={() => (isOpen.value = true)}
              onBlur={takeTyped}
              onKeyDown={onKeyDown}
            />
          </div>
          <div ref={list} id={`${id}-options`} class="options" role="listbox" popover="manual" aria-label={label}>
            {found.map((option, i) => (
              // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are those of the combobox
              <div
                key={option}
                id={`${id}-${i}`}
                class={i === active.value ? 'active' : undefined}
                role="option"
                tabIndex={-1}
                aria-selected={i === active.value}
                // The field keeps the focus.
                onMouseDown={event => event.preventDefault()}
                onClick={() => add(option)}
              >
                {option}
              </div>
            ))}
            {found.length === 0 && <div class="none">{texts.nothingFound}</div>}
          </div>
        </div>
      )}
    </Field>
  )
}
