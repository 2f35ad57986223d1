import { render } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { get, isConnected, request, session } from './api.ts'
import type { Session } from './api.ts'
import { Access } from './pages/access.tsx'
import { Errors } from './pages/errors.tsx'
import { Keys } from './pages/keys.tsx'
import { Networks } from './pages/networks.tsx'
import { Overview } from './pages/overview.tsx'
import { Plan } from './pages/plan.tsx'
import { SignIn } from './pages/sign-in.tsx'
import { TryIt } from './pages/try-it.tsx'
import { Usage } from './pages/usage.tsx'
import { followLink, path } from './router.ts'
import { now } from './store.ts'
import { texts } from './texts.ts'

const pages = [
  { path: '/', title: texts.pages.overview, Page: Overview },
  { path: '/usage', title: texts.pages.usage, Page: Usage },
  { path: '/errors', title: texts.pages.errors, Page: Errors },
  { path: '/keys', title: texts.pages.keys, Page: Keys },
  { path: '/try-it', title: texts.pages.tryIt, Page: TryIt },
  { path: '/networks', title: texts.pages.networks, Page: Networks },
  { path: '/plan', title: texts.pages.plan, Page: Plan },
  { path: '/access', title: texts.pages.access, Page: Access },
] as const

/** A session ends after half an hour without a request; a page that is looked at is in use. */
const sessionRefreshMs = 600_000

const App = () => {
  const current = session.value
  useEffect(() => {
    const refresh = () =>
      void get<Session>('/session').then(
        found => (session.value = found),
        () => undefined,
      )
    refresh()
    const timer = setInterval(() => document.visibilityState === 'visible' && refresh(), sessionRefreshMs)
    return () => clearInterval(timer)
  }, [])
  // A sign-in link wins over a session: it may be another account's.
  if (current === null || (path.value === '/sign-in' && location.hash !== '')) return <SignIn />
  if (current === undefined) return <p class="loading">{isConnected.value ? texts.loading : texts.notConnected}</p>
  return <Portal current={current} />
}

const Portal = ({ current }: { readonly current: Session }) => {
  const { path: pagePath, title, Page } = pages.find(page => page.path === path.value) ?? pages[0]
  const heading = useRef<HTMLHeadingElement>(null)
  const isFirst = useRef(true)
  useEffect(() => {
    document.title = `${title} · ${texts.product}`
    // After a change of page, screen readers continue at its heading.
    if (!isFirst.current) heading.current?.focus()
    isFirst.current = false
  }, [pagePath])
  return (
    <>
      <a class="skip" href="#content">
        {texts.skipToContent}
      </a>
      <header>
        <strong>{texts.product}</strong>
        <span data-testid="account">{current.account.name}</span>
        <time class="clock" dateTime={new Date(now.value).toISOString()}>
          {new Date(now.value).toISOString().slice(11, 19)} UTC
        </time>
        <button type="button" class="quiet" onClick={() => void request('DELETE', '/session').then(() => (session.value = null))}>
          {texts.signOut}
        </button>
      </header>
      <nav aria-label={texts.navigation}>
        <ul>
          {pages.map(page => (
            <li key={page.path}>
              <a href={page.path} aria-current={page.path === pagePath ? 'page' : undefined} onClick={followLink}>
                {page.title}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <main id="content">
        {!isConnected.value && (
          <p class="notice" role="alert">
            {texts.notConnected}
          </p>
        )}
        <h1 ref={heading} tabIndex={-1}>
          {title}
        </h1>
        <Page />
      </main>
    </>
  )
}

const root = document.getElementById('app')
if (root !== null) render(<App />, root)
