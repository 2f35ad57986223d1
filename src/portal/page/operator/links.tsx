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

export const RequestLink = ({ id }: { readonly id: string }) => (
  <Link to={`/operator/requests?${new URLSearchParams({ id })}`}>
    <span class="breakable">{id}</span>
  </Link>
)

export const NetworkLink = ({ name, children = name }: { readonly name: string; readonly children?: ComponentChildren }) => (
  <Link to={`/operator/nodes?${new URLSearchParams({ network: name })}`}>{children}</Link>
)

/** The page of its network. */
export const NodeLink = ({ network, node }: { readonly network: string; readonly node: string }) => (
  <NetworkLink name={network}>{node}</NetworkLink>
)

/** Of the last hour. */
export const ErrorsLink = ({ network, children }: { readonly network: string; readonly children: ComponentChildren }) => (
  <Link to={`/operator/errors?${new URLSearchParams({ hours: '1', network })}`}>{children}</Link>
)

export const PageLink = Link
