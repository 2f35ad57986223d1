import type { ComponentChildren } from 'preact'
import { followLink } from '../router.ts'

interface LinkProps {
  readonly to: string
  readonly children: ComponentChildren
}

const Link = ({ to, children }: LinkProps) => (
  <a href={to} onClick={followLink}>
    {children}
  </a>
)

/** Names need no escapes. One that no longer exists has none. */
export const AccountLink = ({ name, id }: { readonly name: string; readonly id?: string }) =>
  name === '' ? <code>{id}</code> : <Link to={`/operator/accounts/${name}`}>{name}</Link>

/** The last failed requests with the key. */
export const KeyLink = ({ account, id, name }: { readonly account: string; readonly id: string; readonly name: string }) => (
  <Link to={`/operator/accounts/${account}?${new URLSearchParams({ by: 'requests', key: id })}`}>{name}</Link>
)

interface FailedCallsProps {
  /** Name of the account. */
  readonly account: string
  /** Of what: any member is left out where all are meant. */
  readonly of?: { readonly network?: string; readonly method?: string; readonly key?: string; readonly outcome?: string }
  readonly children: ComponentChildren
}

/** What was logged of the failed calls of an account, and why each failed. */
export const FailedCallsLink = ({ account, of = {}, children }: FailedCallsProps) => (
  <Link to={`/operator/accounts/${account}?${new URLSearchParams({ by: 'requests', ...of })}`}>{children}</Link>
)

/** `isCut`: to one line, as its page has the whole id. */
export const RequestLink = ({ id, isCut = false }: { readonly id: string; readonly isCut?: boolean }) => (
  <Link to={`/operator/requests?${new URLSearchParams({ id })}`}>
    <span class={isCut ? 'cut' : 'breakable'} title={isCut ? id : undefined}>
      {id}
    </span>
  </Link>
)

export const NetworkLink = ({ name, children = name }: { readonly name: string; readonly children?: ComponentChildren }) => (
  <Link to={`/operator/nodes?${new URLSearchParams({ network: name })}`}>{children}</Link>
)

/** The page of its network, at its row. */
export const NodeLink = ({ network, node }: { readonly network: string; readonly node: string }) => (
  <Link to={`/operator/nodes?${new URLSearchParams({ network, node })}`}>{node}</Link>
)

/** Of the last hour. */
export const ErrorsLink = ({ network, children }: { readonly network: string; readonly children: ComponentChildren }) => (
  <Link to={`/operator/errors?${new URLSearchParams({ hours: '1', network })}`}>{children}</Link>
)

export const PageLink = Link
