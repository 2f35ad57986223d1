import { useId, useRef } from 'preact/hooks'
import { Icon } from './icon.tsx'

export interface MenuItem {
  readonly label: string
  readonly isDangerous?: boolean
  onSelect(): void
}

interface MenuProps {
  /** Of the button, for those who do not see it. */
  readonly label: string
  readonly items: readonly MenuItem[]
}

/** The distance to the button, and to the borders of the window. */
const gapPx = 4

/** Below its button, or above it where there is no room. */
const place = (menu: HTMLElement, button: HTMLElement): void => {
  const box = button.getBoundingClientRect()
  const fitsBelow = box.bottom + gapPx + menu.offsetHeight <= innerHeight
  menu.style.top = `${fitsBelow ? box.bottom + gapPx : Math.max(gapPx, box.top - gapPx - menu.offsetHeight)}px`
  menu.style.left = `${Math.max(gapPx, box.right - menu.offsetWidth)}px`
}

/** A button that opens a list of actions. The arrows move in it; Esc, Tab and a click elsewhere close it. */
export const Menu = ({ label, items }: MenuProps) => {
  const id = useId()
  const button = useRef<HTMLButtonElement>(null)
  const list = useRef<HTMLDivElement>(null)
  const entries = () => [...(list.current?.querySelectorAll('button') ?? [])]
  const open = ({ newState }: { readonly newState: string }): void => {
    if (newState !== 'open' || list.current === null || button.current === null) return
    place(list.current, button.current)
    entries()[0]?.focus()
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
      <button ref={button} type="button" class="plain icon-button" popovertarget={id} aria-haspopup="menu" aria-label={label}>
        <Icon name="more" />
      </button>
      <div ref={list} id={id} class="menu" role="menu" tabIndex={-1} popover="auto" aria-label={label} onToggle={open} onKeyDown={move}>
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
