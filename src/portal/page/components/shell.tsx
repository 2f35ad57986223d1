import { useSignal } from '@preact/signals'
import { Fragment } from 'preact'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { brand } from '../brand.ts'
import { now } from '../clock.ts'
import { connectionProblem } from '../request.ts'
import { followLink, path } from '../router.ts'
import { hasEnded } from '../session-end.ts'
import { texts } from '../texts.ts'
import { chooseTheme, themeChoice } from '../theme.ts'
import { formatMoment } from '../format.ts'
import { Badge } from './badge.tsx'
import type { Tone } from './badge.tsx'
import { Banner } from './banner.tsx'
import { Notice } from './controls.tsx'
import { EmptyState } from './empty-state.tsx'
import { Icon } from './icon.tsx'
import type { IconName } from './icon.tsx'
import { Skeleton } from './skeleton.tsx'
import { Segments } from './tabs.tsx'
import { Toasts } from './toast.tsx'

/** A page of the navigation. */
export interface PageEntry {
  readonly path: string
  readonly title: string
  readonly icon: IconName
  /** Pages of one group stand below its name. */
  readonly group?: string
  /** How many problems it shows, and of what. */
  readonly problems?: { readonly count: number; readonly text: string; readonly tone: Tone } | undefined
}

interface ShellProps {
  /** Whose page it is. */
  readonly owner: string
  /** Who is signed in, and what they may do. */
  readonly person?: string
  /** Which gateway it is, for who has the pages of several open. */
  readonly host?: string
  readonly pages: readonly PageEntry[]
  /** The path in the navigation of what is shown; empty where that is none of them. */
  readonly current: string
  readonly title: string
  /** Beside the title: what one does on this page. */
  readonly actions?: ComponentChildren
  readonly children: ComponentChildren
  onSignOut(): void
}

/** Navigation, heading and messages around what is shown. */
export const Shell = ({ owner, person, host, pages, current, title, actions, children, onSignOut }: ShellProps) => {
  const heading = useRef<HTMLHeadingElement>(null)
  const isFirst = useRef(true)
  const isMenuOpen = useSignal(false)
  useEffect(() => {
    document.title = [title, ...(host === undefined ? [] : [host]), brand.name].join(' · ')
    isMenuOpen.value = false
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
  const closeMenu = (event: KeyboardEvent): void => {
    if (event.key === 'Escape') isMenuOpen.value = false
  }
  return (
    <div class="shell" hidden={hasEnded.value}>
      {/* biome-ignore lint/a11y/useValidAnchor: a link to this page itself, which skips what is above */}
      <a class="skip" href="#content" onClick={skipToContent}>
        {texts.skipToContent}
      </a>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: Esc closes the menu, wherever the focus is in it */}
      <header onKeyDown={closeMenu}>
        <Brand home={pages[0]?.path} />
        <button
          type="button"
          class="plain menu-button"
          aria-expanded={isMenuOpen.value}
          aria-controls="menu"
          onClick={() => (isMenuOpen.value = !isMenuOpen.value)}
        >
          <Icon name={isMenuOpen.value ? 'close' : 'menu'} />
          {texts.menu}
          {!isMenuOpen.value && <WorstProblems pages={pages} />}
        </button>
        <div id="menu" class={isMenuOpen.value ? 'drawer open' : 'drawer'}>
          <Navigation pages={pages} current={current} />
          <div class="frame-end">
            <div class="owner">
              <span class="avatar" aria-hidden="true">
                {owner.slice(0, 1)}
              </span>
              <div>
                <strong data-testid="account">{owner}</strong>
                {person !== undefined && <small>{person}</small>}
              </div>
            </div>
            <div class="frame-row">
              <ThemeSwitch />
              <time class="clock" title={texts.timeOfGateway} dateTime={new Date(now.value).toISOString()}>
                {new Date(now.value).toISOString().slice(11, 19)} UTC
              </time>
            </div>
            <Support />
            <button type="button" class="quiet" onClick={onSignOut}>
              <Icon name="signOut" />
              {texts.signOut}
            </button>
          </div>
        </div>
      </header>
      <main id="content">
        <div class="page-heading">
          <h1 ref={heading} tabIndex={-1}>
            {title}
          </h1>
          {actions !== undefined && <div class="buttons">{actions}</div>}
        </div>
        <ConnectionProblem />
        {children}
      </main>
      <Toasts />
    </div>
  )
}

/** Why figures are missing or old, since when, and what becomes of calls. */
const ConnectionProblem = () => {
  const problem = connectionProblem.value
  if (problem === undefined) return null
  return (
    <Banner tone="danger" title={problem.text}>
      {texts.since} {formatMoment(new Date(problem.since).toISOString(), now.value)}; {texts.retrying}
    </Banner>
  )
}

/** Before it is known who is signed in: the frame, with nothing in it yet. */
export const Loading = () => (
  <div class="shell">
    <header>
      <Brand />
    </header>
    <main>
      <h1 class="unseen">{brand.name}</h1>
      <Skeleton height={2} />
      <Skeleton />
    </main>
  </div>
)

/** The product, as a link to its first page where there is one. */
export const Brand = ({ home }: { readonly home?: string | undefined }) => {
  const content = (
    <>
      {brand.logo === undefined ? (
        <svg viewBox="0 0 16 16" aria-hidden="true">
          <rect width="16" height="16" rx="4" fill="currentColor" />
          <path d="M3.5 12V6h2v6zM7 12V4h2v8zm3.5 0V6h2v6z" fill="var(--on-accent)" />
        </svg>
      ) : (
        <img src={brand.logo} alt="" />
      )}
      <span>{brand.name}</span>
    </>
  )
  return home === undefined ? (
    <p class="brand">{content}</p>
  ) : (
    <a class="brand" href={home} onClick={followLink}>
      {content}
    </a>
  )
}

const Navigation = ({ pages, current }: Pick<ShellProps, 'pages' | 'current'>) => {
  const groups = [...new Set(pages.map(({ group }) => group))]
  return (
    <nav aria-label={texts.navigation}>
      {groups.map(group => (
        <Fragment key={group ?? ''}>
          {group !== undefined && <h2>{group}</h2>}
          <ul>
            {pages
              .filter(page => page.group === group)
              .map(page => (
                <li key={page.path}>
                  <a
                    href={page.path}
                    title={page.problems?.count ? `${page.problems.count} ${page.problems.text}` : undefined}
                    aria-current={page.path === current ? 'page' : undefined}
                    onClick={followLink}
                  >
                    <Icon name={page.icon} />
                    <span>{page.title}</span>
                    <Problems of={page.problems} />
                  </a>
                </li>
              ))}
          </ul>
        </Fragment>
      ))}
    </nav>
  )
}

const Problems = ({ of }: { readonly of: PageEntry['problems'] }) =>
  of === undefined || of.count === 0 ? null : (
    <Badge tone={of.tone} isLabel>
      {of.count}
      <span class="unseen"> {of.text}</span>
    </Badge>
  )

/** Beside a closed menu: those of the first page with an error, else of the first with a warning. */
const WorstProblems = ({ pages }: Pick<ShellProps, 'pages'>) => {
  const found = pages.flatMap(({ problems }) => (problems !== undefined && problems.count > 0 ? [problems] : []))
  return <Problems of={found.find(({ tone }) => tone === 'danger') ?? found[0]} />
}

/** A page of somebody else, in a tab of its own. */
export const ExternalLink = ({
  href,
  children,
  class: className,
}: {
  readonly href: string
  readonly children: ComponentChildren
  readonly class?: string
}) => (
  <a class={className} href={href} target="_blank" rel="noopener">
    {children}
  </a>
)

/** Where people get help; nothing unless the gateway has it. */
export const Support = () =>
  brand.support === undefined ? null : (
    <ExternalLink class="support" href={brand.support}>
      <Icon name="external" />
      {texts.support}
    </ExternalLink>
  )

/** The same in a sentence; without it, whom to ask. */
export const ContactSupport = () =>
  brand.support === undefined ? texts.askOperator : <ExternalLink href={brand.support}>{texts.contactSupport}</ExternalLink>

const themes = (['system', 'light', 'dark'] as const).map(value => ({
  value,
  label: (
    <>
      <Icon name={value} />
      <span class="unseen">{texts.themes[value]}</span>
    </>
  ),
}))

export const ThemeSwitch = () => <Segments label={texts.theme} options={themes} value={themeChoice.value} onChange={chooseTheme} />

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
export const NotFound = ({ home }: { readonly home: Pick<PageEntry, 'path' | 'title'> }) => (
  <EmptyState
    icon="search"
    title={texts.notFound.how}
    actions={
      <a class="button" href={home.path} onClick={followLink}>
        {home.title}
      </a>
    }
  />
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
      <Brand />
      <h1>{texts.unavailable}</h1>
      <Notice text={shown.value} />
    </main>
  )
}
