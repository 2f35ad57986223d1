import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { now } from '../clock.ts'
import { connectionProblem } from '../request.ts'
import { followLink, path } from '../router.ts'
import { texts } from '../texts.ts'

interface ShellProps {
  /** Whose page it is. */
  readonly owner: string
  /** Of the navigation. */
  readonly pages: readonly { readonly path: string; readonly title: string }[]
  /** The path in the navigation of what is shown. */
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
  return (
    <>
      <a class="skip" href="#content">
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
        {connectionProblem.value !== undefined && (
          <p class="notice" role="alert">
            {connectionProblem.value}
          </p>
        )}
        <h1 ref={heading} tabIndex={-1}>
          {title}
        </h1>
        {children}
      </main>
    </>
  )
}
