import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import type { SessionJson } from '../../routes/session.ts'
import { Notice } from '../components/controls.tsx'
import { Loading, NotFound, Shell, Unavailable } from '../components/shell.tsx'
import type { PageEntry } from '../components/shell.tsx'
import { request } from '../request.ts'
import { renderAfter } from '../render-after.ts'
import { path } from '../router.ts'
import { hasEnded, signOutBy } from '../session-end.ts'
import { texts } from '../texts.ts'
import { AccountBanner } from './account-banner.tsx'
import { ConfirmEmail } from './confirm-email.tsx'
import { loadSession, loadSessionAndAccount, refusedSignIn, session } from './developer-session.ts'
import { Keys, KeysActions } from './keys.tsx'
import { loadPage } from './load-page.tsx'
import { Networks } from './networks.tsx'
import { Overview } from './overview.tsx'
import { Plan } from './plan.tsx'
import { Profile } from './profile.tsx'
import { SignIn, SignInAgain } from './sign-in.tsx'
import { Status, statusPath } from './status.tsx'
import { Usage } from './usage.tsx'

interface DeveloperPage extends Pick<PageEntry, 'path' | 'title'>, Partial<Pick<PageEntry, 'icon' | 'group'>> {
  Page(): ComponentChildren
  /** What one does on the page, beside its title. */
  Actions?(): ComponentChildren
}

const { observe, build, account } = texts.groups

const later = () => import('./later-pages.ts')

const pages = [
  { path: '/', title: texts.pages.overview, Page: Overview, icon: 'overview' },
  { path: '/usage', title: texts.pages.usage, Page: Usage, icon: 'usage', group: observe },
  {
    path: '/errors',
    title: texts.pages.errors,
    Page: loadPage(async () => (await later()).Errors),
    icon: 'errors',
    group: observe,
  },
  {
    path: '/requests',
    title: texts.pages.requests,
    Page: loadPage(async () => (await later()).Requests),
    icon: 'requests',
    group: observe,
  },
  { path: '/keys', title: texts.pages.keys, Page: Keys, Actions: KeysActions, icon: 'keys', group: build },
  {
    path: '/try-it',
    title: texts.pages.tryIt,
    Page: loadPage(async () => (await import('./try-it.tsx')).TryIt),
    icon: 'tryIt',
    group: build,
  },
  { path: '/networks', title: texts.pages.networks, Page: Networks, icon: 'networks', group: build },
  { path: '/plan', title: texts.pages.plan, Page: Plan, icon: 'plan', group: account },
  {
    path: '/alerts',
    title: texts.pages.alerts,
    Page: loadPage(async () => (await later()).Alerts),
    icon: 'alerts',
    group: account,
  },
  {
    path: '/access',
    title: texts.pages.access,
    Page: loadPage(async () => (await later()).Access),
    icon: 'people',
    group: account,
  },
  { path: '/profile', title: texts.pages.profile, Page: Profile, icon: 'person', group: account },
] as const satisfies readonly DeveloperPage[]

const notFound = { path: '', title: texts.notFound.title, Page: () => <NotFound home={pages[0]} /> }

/** Of sign-in links, and of the way back from a provider. */
const signInPath = '/sign-in'

/** A session ends after half an hour without a request; a page that is looked at is in use. */
const sessionRefreshMs = 600_000

/** Why no session could be loaded. */
const problem = signal<string | undefined>(undefined)

const refresh = (load = loadSession): Promise<void> =>
  load().catch((reason: Error) => {
    problem.value = reason.message
  })

/** A sign-in link wins over a session: it may be another account's. So does the way back from a provider. */
const isSigningIn = (): boolean => path.value === signInPath && (location.hash !== '' || location.search !== '')

const App = () => {
  const current = session.value
  useEffect(() => {
    const timer = setInterval(() => document.visibilityState === 'visible' && void refresh(), sessionRefreshMs)
    return () => clearInterval(timer)
  }, [])
  if (path.value === '/confirm-email') return <ConfirmEmail />
  if (path.value === statusPath) return <Status />
  if (current === null || isSigningIn()) return <SignIn />
  if (current === undefined) return problem.value === undefined ? <Loading /> : <Unavailable reason={problem.value} load={loadSession} />
  return (
    <>
      {hasEnded.value && <SignInAgain />}
      <Portal current={current} />
    </>
  )
}

const Portal = ({ current }: { readonly current: SessionJson }) => {
  const shownPath = path.value === signInPath ? pages[0].path : path.value
  const { path: pagePath, title, Page, Actions }: DeveloperPage = pages.find(page => page.path === shownPath) ?? notFound
  const signOut = () => void signOutBy(request('DELETE', '/session'))
  return (
    <Shell
      owner={current.account.name}
      person={`${current.person.name} · ${current.person.role}`}
      pages={pages}
      current={pagePath}
      title={title}
      actions={Actions && <Actions />}
      onSignOut={signOut}
    >
      {path.value === signInPath && <Notice text={refusedSignIn.value} />}
      <AccountBanner isOverview={pagePath === pages[0].path} />
      <Page />
    </Shell>
  )
}

// Links have their token after #: browsers load nothing when one is opened in place of another, or of what it led to.
addEventListener('hashchange', () => location.reload())

// The sign-in says whose session it is: that nobody was signed in before it could be answered later.
void renderAfter(isSigningIn() ? undefined : refresh(loadSessionAndAccount), <App />)
