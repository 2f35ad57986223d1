import { signal } from '@preact/signals'

/** The path of the page that is shown. */
export const path = signal(location.pathname)

addEventListener('popstate', () => {
  path.value = location.pathname
})

export const navigate = (to: string): void => {
  // As browsers do, a link to the page that is shown is no step for the way back.
  if (to !== location.pathname) history.pushState(null, '', to)
  path.value = to
}

/** For a page that a link with a token after # leads to: browsers load nothing when another such link is opened in its place. */
export const reloadForAnotherLink = (): (() => void) => {
  const reload = () => location.reload()
  addEventListener('hashchange', reload)
  return () => removeEventListener('hashchange', reload)
}

/** For links within the portal; a click with a modifier opens another tab, as browsers do. */
export const followLink = (event: MouseEvent): void => {
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return
  event.preventDefault()
  navigate((event.currentTarget as HTMLAnchorElement).pathname)
}
