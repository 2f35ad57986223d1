import { signal, useComputed } from '@preact/signals'
import { gatewayHost } from '../brand.ts'
import { clockOffsetMs, now } from '../clock.ts'
import { drawing } from '../components/load-drawing.ts'
import { Notice, TextField } from '../components/controls.tsx'
import { useSubmit } from '../components/form.tsx'
import { loadLater } from '../components/load-later.tsx'
import { Brand, Loading, NotFound, Shell, Support, ThemeSwitch, Unavailable } from '../components/shell.tsx'
import type { CurrentProblemJson, CurrentProblemsJson, NodesAndProblemsJson } from '../../operator/problems.ts'
import { renderAfter } from '../render-after.ts'
import { isFirstRequest, lastReadAt, refreshIntervalMs, send, useRequest } from '../request.ts'
import { path } from '../router.ts'
import { hasEnded, signOutBy, announceSignIn } from '../session-end.ts'
import { texts } from '../texts.ts'
import { AccountDetails } from './account-details.tsx'
import { Home } from './home.tsx'
import { NodesNow, areOfNodes } from './node-state.tsx'
import { recordsFile } from './load-records.ts'
import { loadSession, session } from './operator-session.ts'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts

// Files of their own, as that of records.
const nodesFile = loadLater(() => import('./nodes.tsx'))
const accountsFile = loadLater(() => import('./accounts.tsx'))
const errorsFile = loadLater(() => import('./errors.tsx'))

const pages = [
  { path: '/operator', title: text.pages.home, Page: Home, icon: 'home' },
  { path: '/operator/accounts', title: text.pages.accounts, Page: accountsFile.component(code => code.Accounts), icon: 'people' },
  { path: '/operator/traffic', title: text.pages.traffic, Page: recordsFile.component(code => code.Traffic), icon: 'traffic' },
  { path: '/operator/errors', title: text.pages.errors, Page: errorsFile.component(code => code.Errors), icon: 'errors' },
  { path: '/operator/requests', title: text.pages.requests, Page: recordsFile.component(code => code.Requests), icon: 'requests' },
  { path: '/operator/nodes', title: text.pages.nodes, Page: nodesFile.component(code => code.Nodes), icon: 'nodes' },
  {
    path: '/operator/configuration',
    title: text.pages.configuration,
    Page: recordsFile.component(code => code.Configuration),
    icon: 'settings',
  },
  { path: '/operator/audit', title: text.pages.audit, Page: recordsFile.component(code => code.Audit), icon: 'audit' },
] as const

const pagesOfNodes: readonly string[] = [text.pages.home, text.pages.nodes]

const notFound = { path: '', title: texts.notFound.title, Page: () => <NotFound home={pages[0]} /> }

const accountPath = /^\/operator\/accounts\/([\w.@-]+)$/

/** Why no session could be loaded. */
const problem = signal<string | undefined>(undefined)

const App = () => {
  if (session.value === null) return <SignIn />
  if (session.value === undefined)
    return problem.value === undefined ? <Loading /> : <Unavailable reason={problem.value} load={loadSession} />
  return (
    <>
      {hasEnded.value && <SignIn />}
      <Pages />
    </>
  )
}

const SignIn = () => {
  const { error, isSending, submit } = useSubmit(async values => {
    await send('POST', '/login', { token: String(values.get('token')) })
    await loadSession()
    announceSignIn()
  })
  return (
    <main class="sign-in" id="content">
      <Brand />
      <h1>{texts.signIn.title}</h1>
      <form class="card form" onSubmit={submit} aria-label={texts.signIn.title}>
        <Notice text={hasEnded.value ? texts.signIn.ended : undefined} />
        <p>
          {text.signIn.toGateway} <strong>{gatewayHost}</strong>. {text.signIn.how}
        </p>
        <TextField
          label={text.signIn.token}
          name="token"
          type="password"
          autocomplete="current-password"
          required
          error={error.value?.message}
        />
        <button type="submit" disabled={isSending.value}>
          {text.signIn.submit}
        </button>
      </form>
      <div class="sign-in-end">
        <Support />
        <ThemeSwitch />
      </div>
    </main>
  )
}

/** So that nobody takes a page that has stopped for one that is up to date. */
const AsOf = ({ isLoading }: { readonly isLoading: boolean }) => {
  const readAt = lastReadAt.value
  if (isLoading) return <span class="since">{texts.loading}</span>
  if (readAt === undefined) return null
  const time = new Date(readAt + clockOffsetMs.value).toISOString()
  const isOld = now.value - Date.parse(time) > maxMissedReads * refreshIntervalMs
  return (
    <span class={isOld ? 'since error' : 'since'}>
      {text.asOf} <time dateTime={time}>{time.slice(11, 19)}</time> UTC
    </span>
  )
}

const maxMissedReads = 2

const signOut = () => void signOutBy(send('POST', '/logout'))

const hasNodes = (read: NodesAndProblemsJson | CurrentProblemsJson | undefined): read is NodesAndProblemsJson =>
  read !== undefined && 'networks' in read

/** Beside the name of the page that says more of them. */
const countProblems = (found: readonly CurrentProblemJson[], count: number, [one, many]: readonly [string, string]) => ({
  count,
  text: count === 1 ? one : many,
  tone: found.some(({ severity }) => severity === 'critical')
    ? ('danger' as const)
    : found.some(({ severity }) => severity === 'warning')
      ? ('warn' as const)
      : ('accent' as const),
})

const Pages = () => {
  const [, accountName] = accountPath.exec(path.value) ?? []
  const page = pages.find(each => each.path === path.value) ?? notFound
  // The menu shows how many problems there are, on each page; the nodes themselves are long where there are hundreds.
  const read = useRequest<NodesAndProblemsJson | CurrentProblemsJson>(
    pagesOfNodes.includes(page.title) ? '/overview/nodes' : '/overview/problems',
  )
  const nodes = useComputed(() => (hasNodes(read.data.value) ? read.data.value : undefined))
  const { problems: found = [], nodesWithProblems = [] } = read.data.value ?? {}
  const counted = found.filter(each => each.severity !== 'info' && !each.partOfOutage)
  const isLoading = read.data.value === undefined && read.error.value === undefined
  const counts: Readonly<Record<string, ReturnType<typeof countProblems>>> = {
    [text.pages.home]: countProblems(counted, counted.length, text.problems),
    [text.pages.nodes]: countProblems(found.filter(areOfNodes), nodesWithProblems.length, text.nodesWithProblems),
  }
  const shown =
    accountName === undefined
      ? { path: page.path, title: page.title, content: <page.Page /> }
      : { path: pages[1].path, title: accountName, content: <AccountDetails key={accountName} name={accountName} /> }
  return (
    <Shell
      owner={session.value?.name ?? text.owner}
      person={gatewayHost}
      host={gatewayHost}
      pages={pages.map(each => ({ ...each, problems: counts[each.title] }))}
      current={shown.path}
      title={shown.title}
      actions={<AsOf isLoading={isLoading} />}
      onSignOut={signOut}
    >
      <NodesNow.Provider value={{ ...read, data: nodes }}>{shown.content}</NodesNow.Provider>
      <p class="lead page-end">
        <a href="/api/v1/openapi.json">{text.api}</a>
      </p>
    </Shell>
  )
}

const loaded = loadSession().catch((reason: Error) => {
  problem.value = reason.message
})
// Home has charts: drawn with it, they are drawn once.
void renderAfter(Promise.all([loaded, isFirstRequest('/overview') && drawing.load()]), <App />)
