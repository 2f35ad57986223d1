import type { ComponentChildren } from 'preact'
import { followLink } from '../router.ts'

interface LinkProps {
  readonly to: string
  readonly isOneLine?: boolean
  readonly children: ComponentChildren
}

const Link = ({ to, isOneLine = false, children }: LinkProps) => (
  <a href={to} onClick={followLink} class={isOneLine ? 'one-line' : undefined}>
    {children}
  </a>
)

interface AccountLinkProps {
  readonly name: string
  readonly id?: string
  /** Its name unless given. */
  readonly children?: ComponentChildren
}

/** Names need no escapes. One that no longer exists has none. */
export const AccountLink = ({ name, id, children = name }: AccountLinkProps) =>
  name === '' ? <code>{id}</code> : <Link to={`/operator/accounts/${name}`}>{children}</Link>

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

const shownEndChars = 4

/** `7f3a91…c2d4e6`: many ids begin alike, or end alike. */
const cutMiddle = (id: string): string =>
  id.length <= 2 * shownEndChars + 1 ? id : `${id.slice(0, shownEndChars)}…${id.slice(-shownEndChars)}`

/** `isCut`: to one line, as its page has the whole id. */
export const RequestLink = ({ id, isCut = false }: { readonly id: string; readonly isCut?: boolean }) => (
  <Link to={`/operator/requests?${new URLSearchParams({ id })}`}>
    <span class={isCut ? 'one-line' : 'breakable'} title={isCut ? id : undefined}>
      {isCut ? cutMiddle(id) : id}
    </span>
  </Link>
)

export const NetworkLink = ({ name }: { readonly name: string }) => (
  <Link to={`/operator/nodes?${new URLSearchParams({ network: name })}`} isOneLine>
    {name}
  </Link>
)

/** Where its network is not named beside it: nodes of several networks have the same names. */
export const nameOfNode = (network: string, node: string): string => `${network} / ${node}`

interface NodeLinkProps {
  readonly network: string
  readonly node: string
  /** Its network is named beside it. */
  readonly isShort?: boolean
}

/** The page of its network, at its row. */
export const NodeLink = ({ network, node, isShort = false }: NodeLinkProps) => (
  <Link to={`/operator/nodes?${new URLSearchParams({ network, node })}`}>{isShort ? node : nameOfNode(network, node)}</Link>
)

/** Of the last hour. */
export const ErrorsLink = ({ network, children }: { readonly network: string; readonly children: ComponentChildren }) => (
  <Link to={`/operator/errors?${new URLSearchParams({ hours: '1', network })}`}>{children}</Link>
)

export const PageLink = Link
