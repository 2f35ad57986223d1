import { signal } from '@preact/signals'

/** `/keys/`, as people type it, is `/keys`. */
const readPath = (): string => location.pathname.replace(/(?<=.)\/$/, '')

/** The path of the page that is shown. */
export const path = signal(readPath())

addEventListener('popstate', () => {
  path.value = readPath()
})

export const navigate = (to: string): void => {
  // As browsers do, a link to the page that is shown is no step for the way back.
  if (to !== location.pathname) history.pushState(null, '', to)
  path.value = to
}

/** For links within the portal; a click with a modifier opens another tab, as browsers do. */
export const followLink = (event: MouseEvent): void => {
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return
  event.preventDefault()
  navigate((event.currentTarget as HTMLAnchorElement).pathname)
}
