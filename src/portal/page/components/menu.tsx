import { useId, useRef } from 'preact/hooks'
import { Icon } from './icon.tsx'
import { placeBelow } from './place.ts'

interface MenuItem {
  readonly label: string
  readonly isDangerous?: boolean
  onSelect(): void
}

interface MenuProps {
  /** Of the button, for those who do not see it. */
  readonly label: string
  readonly items: readonly MenuItem[]
  /** What the button shows, where it is not three dots. */
  readonly text?: string
}

/** A button that opens a list of actions. The arrows move in it; Esc, Tab and a click elsewhere close it. */
export const Menu = ({ label, items, text }: MenuProps) => {
  const id = useId()
  const button = useRef<HTMLButtonElement>(null)
  const list = useRef<HTMLDivElement>(null)
  const entries = () => [...(list.current?.querySelectorAll('button') ?? [])]
  const place = (): void => {
    if (list.current === null || button.current === null) return
    placeBelow(list.current, button.current)
    entries()[0]?.focus()
  }
  /** Before it is drawn: the event that says that it is open comes later. */
  const open = ({ newState }: { readonly newState: string }): void => {
    if (newState === 'open') requestAnimationFrame(place)
  }
  const move = (event: KeyboardEvent): void => {
    const all = entries()
    const current = all.findIndex(entry => entry.matches(':focus'))
    const next = { ArrowDown: current + 1, ArrowUp: current - 1 + all.length, Home: 0, End: all.length - 1 }[event.key]
    if (event.key === 'Tab') list.current?.hidePopover()
    if (next === undefined) return
    event.preventDefault()
    all[next % all.length]?.focus()
  }
  return (
    <>
      <button
        ref={button}
        type="button"
        class={text === undefined ? 'quiet icon-button' : 'quiet'}
        popovertarget={id}
        aria-haspopup="menu"
        aria-label={label}
      >
        {text}
        <Icon name={text === undefined ? 'more' : 'chevronDown'} />
      </button>
      <div
        ref={list}
        id={id}
        class="menu"
        role="menu"
        tabIndex={-1}
        popover="auto"
        aria-label={label}
        onBeforeToggle={open}
        onKeyDown={move}
      >
        {items.map(({ label: action, isDangerous = false, onSelect }) => (
          <button
            key={action}
            type="button"
            role="menuitem"
            tabIndex={-1}
            class={isDangerous ? 'danger' : undefined}
            onClick={() => {
              list.current?.hidePopover()
              onSelect()
            }}
          >
            {action}
          </button>
        ))}
      </div>
    </>
  )
}
