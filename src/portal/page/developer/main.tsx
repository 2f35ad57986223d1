import { effect, signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import type { SessionJson } from '../../routes/session.ts'
import { drawing } from '../components/load-drawing.ts'
import { Notice } from '../components/controls.tsx'
import { loadLater } from '../components/load-later.tsx'
import { Loading, NotFound, Shell, Unavailable } from '../components/shell.tsx'
import type { PageEntry } from '../components/shell.tsx'
import { isFirstRequest, request } from '../request.ts'
import { renderAfter } from '../render-after.ts'
import { path } from '../router.ts'
import { hasEnded, signOutBy } from '../session-end.ts'
import { developerTexts } from './developer-texts.ts'
import { AccountBanner } from './account-banner.tsx'
import { accountNameOf, loadSession, loadSessionAndAccount, refusedSignIn, session } from './developer-session.ts'
import { SignInAgain } from './sign-in-again.tsx'

interface DeveloperPage extends Pick<PageEntry, 'path' | 'title'>, Partial<Pick<PageEntry, 'icon' | 'group'>> {
  Page(props: object): ComponentChildren
  /** What one does on the page, beside its title. */
  Actions?(props: object): ComponentChildren
  /** The code of the page. */
  load?(): Promise<void>
}

// A file for each group of pages. What two of them have in common is in the file of this page: it would else be one more request.
const observe = loadLater(() => import('./pages-observe.ts'))
const build = loadLater(() => import('./pages-build.ts'))
const account = loadLater(() => import('./pages-account.ts'))
const signedOut = loadLater(() => import('./pages-signed-out.ts'))

/** Of pages that have charts: drawn with the page, they are drawn once. */
const loadWithCharts = async (): Promise<void> => {
  await Promise.all([observe.load(), drawing.load()])
}

const groups = {
  observe: { group: developerTexts.groups.observe, load: loadWithCharts },
  build: { group: developerTexts.groups.build, load: build.load },
  account: { group: developerTexts.groups.account, load: account.load },
}

const titles = developerTexts.pages

const profilePath = '/profile'

const pages = [
  { path: '/', title: titles.overview, Page: observe.component(code => code.Overview), icon: 'overview', load: loadWithCharts },
  { path: '/usage', title: titles.usage, Page: observe.component(code => code.Usage), icon: 'usage', ...groups.observe },
  { path: '/errors', title: titles.errors, Page: observe.component(code => code.Errors), icon: 'errors', ...groups.observe },
  {
    ...groups.observe,
    path: '/requests',
    title: titles.requests,
    Page: observe.component(code => code.Requests),
    icon: 'requests',
    load: observe.load,
  },
  {
    path: '/keys',
    title: titles.keys,
    Page: build.component(code => code.Keys),
    Actions: build.component(code => code.KeysActions, null, null), // the page itself says what is missing
    icon: 'keys',
    ...groups.build,
  },
  { path: '/try-it', title: titles.tryIt, Page: build.component(code => code.TryIt), icon: 'tryIt', ...groups.build },
  { path: '/networks', title: titles.networks, Page: build.component(code => code.Networks), icon: 'networks', ...groups.build },
  { path: '/plan', title: titles.plan, Page: account.component(code => code.Plan), icon: 'plan', ...groups.account },
  { path: '/alerts', title: titles.alerts, Page: account.component(code => code.Alerts), icon: 'alerts', ...groups.account },
  { path: '/access', title: titles.access, Page: account.component(code => code.Access), icon: 'people', ...groups.account },
  { path: '/settings', title: titles.settings, Page: account.component(code => code.Settings), icon: 'settings', ...groups.account },
  { path: profilePath, title: titles.profile, Page: account.component(code => code.Profile), icon: 'person', ...groups.account },
] as const satisfies readonly DeveloperPage[]

const notFound = { path: '', title: developerTexts.notFound.title, Page: () => <NotFound home={pages[0]} /> }

const SignIn = signedOut.component(code => code.SignIn, <Loading />)
const ConfirmEmail = signedOut.component(code => code.ConfirmEmail, <Loading />)
const Status = signedOut.component(code => code.Status, <Loading />)

/** Of sign-in links, and of the way back from a provider. */
const signInPath = '/sign-in'

const confirmEmailPath = '/confirm-email'
const statusPath = '/status'

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
  if (path.value === confirmEmailPath) return <ConfirmEmail />
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

const shownPage = (): DeveloperPage => pages.find(page => page.path === (path.value === signInPath ? '/' : path.value)) ?? notFound

const Portal = ({ current }: { readonly current: SessionJson }) => {
  const { path: pagePath, title, Page, Actions } = shownPage()
  const signOut = () => void signOutBy(request('DELETE', '/session'))
  return (
    <Shell
      owner={accountNameOf(current)}
      person={[...new Set([current.person.name, current.person.role])].join(' · ')}
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

// What was confirmed elsewhere, or changed by an owner, is shown on Profile at once; a page that is opened has just been told.
let shownBefore = path.peek()
effect(() => {
  if (path.value === profilePath && shownBefore !== profilePath) void refresh()
  shownBefore = path.value
})

// Links have their token after #: browsers load nothing when one is opened in place of another, or of what it led to.
addEventListener('hashchange', () => location.reload())

/** The code of what is shown at first: the HTML file asks for the session where the browser may have one. */
const loadFirst = async (): Promise<void> => {
  const isOpen = isSigningIn() || path.value === confirmEmailPath || path.value === statusPath || !isFirstRequest('/session')
  // After the sign-in, the Overview is shown.
  if (isSigningIn()) void loadWithCharts()
  await (isOpen ? signedOut.load() : shownPage().load?.())
}

// The sign-in says whose session it is: that nobody was signed in before it could be answered later.
void renderAfter(Promise.all([loadFirst(), isSigningIn() || refresh(loadSessionAndAccount)]), <App />)
