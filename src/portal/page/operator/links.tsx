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
