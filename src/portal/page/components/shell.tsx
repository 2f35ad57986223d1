import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { now } from '../clock.ts'
import { connectionProblem } from '../request.ts'
import { followLink, path } from '../router.ts'
import { hasEnded } from '../session-end.ts'
import { texts } from '../texts.ts'
import { Notice } from './controls.tsx'

interface ShellProps {
  /** Whose page it is. */
  readonly owner: string
  /** Of the navigation. */
  readonly pages: readonly { readonly path: string; readonly title: string }[]
  /** The path in the navigation of what is shown; empty where that is none of them. */
  readonly current: string
  readonly title: string
  readonly children: ComponentChildren
  onSignOut(): void
}

/** Header, navigation and heading around what is shown. */
export const Shell = ({ owner, pages, current, title, children, onSignOut }: ShellProps) => {
  const heading = useRef<HTMLHeadingElement>(null)
  const isFirst = useRef(true)
  useEffect(() => {
    document.title = `${title} · ${texts.product}`
    // After a change of page, screen readers continue at its heading.
    if (!isFirst.current) heading.current?.focus()
    isFirst.current = false
  }, [path.value])
  useEffect(() => keepFocus(), [])
  // The address stays: what follows # is the token of a link there.
  const skipToContent = (event: MouseEvent): void => {
    event.preventDefault()
    heading.current?.focus()
  }
  return (
    <div class="shell" hidden={hasEnded.value}>
      {/* biome-ignore lint/a11y/useValidAnchor: a link to this page itself, which skips what is above */}
      <a class="skip" href="#content" onClick={skipToContent}>
        {texts.skipToContent}
      </a>
      <header>
        <strong>{texts.product}</strong>
        <span data-testid="account">{owner}</span>
        <time class="clock" dateTime={new Date(now.value).toISOString()}>
          {new Date(now.value).toISOString().slice(11, 19)} UTC
        </time>
        <button type="button" class="quiet" onClick={onSignOut}>
          {texts.signOut}
        </button>
      </header>
      <nav aria-label={texts.navigation}>
        <ul>
          {pages.map(page => (
            <li key={page.path}>
              <a href={page.path} aria-current={page.path === current ? 'page' : undefined} onClick={followLink}>
                {page.title}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <main id="content">
        <Notice text={connectionProblem.value} />
        <h1 ref={heading} tabIndex={-1}>
          {title}
        </h1>
        {children}
      </main>
    </div>
  )
}

/** What had the focus is gone, such as the button that removes a row: the keyboard goes on at what was around it, or at the heading. */
const keepFocus = (): (() => void) => {
  let around: readonly Element[] = []
  const remember = (event: FocusEvent): void => {
    around = event.composedPath().filter(each => each instanceof Element)
  }
  const observer = new MutationObserver(() => {
    if (around[0]?.isConnected !== false || document.activeElement !== document.body) return
    const next = around.find(each => each.isConnected && each.matches('[tabindex]')) ?? document.querySelector('h1')
    if (next instanceof HTMLElement) next.focus({ preventScroll: true })
  })
  addEventListener('focusin', remember)
  observer.observe(document.body, { childList: true, subtree: true })
  return () => {
    removeEventListener('focusin', remember)
    observer.disconnect()
  }
}

/** For an address that is none of the pages. */
export const NotFound = ({ home }: { readonly home: ShellProps['pages'][number] }) => (
  <p>
    {texts.notFound.how}{' '}
    <a href={home.path} onClick={followLink}>
      {home.title}
    </a>
    .
  </p>
)

const retryIntervalMs = 3_000

interface UnavailableProps {
  /** Why nothing could be loaded. */
  readonly reason: string
  load(): Promise<void>
}

/** Before anything is known: the gateway or its store is unreachable. Loads again until that succeeds. */
export const Unavailable = ({ reason, load }: UnavailableProps) => {
  const shown = useSignal(reason)
  useEffect(() => {
    const retry = () =>
      load().catch((error: Error) => {
        shown.value = error.message
      })
    const timer = setInterval(() => void retry(), retryIntervalMs)
    return () => clearInterval(timer)
  }, [])
  return (
    <main class="sign-in" id="content">
      <h1>{texts.product}</h1>
      <Notice text={shown.value} />
    </main>
  )
}
