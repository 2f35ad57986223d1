// What the pages load at first, beside what all of them do. The HTML file asks for it, so that browsers load all of it at once.

export interface FirstRequests {
  /** Paths below /api/v1. */
  readonly api: readonly string[]
  /** Files of code, by their names without hash and ending. */
  readonly code: readonly string[]
}

/** Of nobody's session. */
const openPaths = ['/sign-in', '/confirm-email', '/status']

/** What charts are drawn with. */
const drawing = 'plot'

const codeOfDeveloper: Readonly<Record<string, readonly string[]>> = {
  '/': ['pages-observe', drawing],
  '/usage': ['pages-observe', drawing],
  '/errors': ['pages-observe', drawing],
  '/requests': ['pages-observe'],
  '/keys': ['pages-build'],
  '/try-it': ['pages-build'],
  '/networks': ['pages-build'],
  '/plan': ['pages-account'],
  '/alerts': ['pages-account'],
  '/access': ['pages-account'],
  '/settings': ['pages-account'],
  '/profile': ['pages-account'],
}

export const firstRequestsOfDeveloper = (path: string, hasSession: boolean): FirstRequests => {
  if (!hasSession || openPaths.includes(path)) return { api: [], code: ['pages-signed-out'] }
  const figures = path === '/' ? ['/usage?range=today&by=method&series=0', '/networks'] : []
  return { api: ['/session', '/account', ...figures], code: codeOfDeveloper[path] ?? [] }
}

/** Of one account. */
const accountsPath = '/operator/accounts/'

const codeOfOperator: Readonly<Record<string, readonly string[]>> = {
  '/operator': [drawing],
  '/operator/accounts': ['accounts'],
  '/operator/nodes': ['nodes'],
  '/operator/errors': ['errors'],
  '/operator/traffic': ['pages-records', drawing],
  '/operator/requests': ['pages-records'],
  '/operator/configuration': ['pages-records'],
  '/operator/audit': ['pages-records'],
}

/** `range` is that of the charts, as the query of the page has it. */
export const firstRequestsOfOperator = (path: string, range: unknown, hasSession: boolean): FirstRequests => {
  if (!hasSession) return { api: [], code: [] }
  const activity = `/overview/activity?range=${range === '24h' ? '24h' : '1h'}`
  const figures =
    path === '/operator'
      ? ['/overview', '/overview/nodes', '/overview/accounts', '/overview/incidents', '/overview/capacity', activity]
      : []
  return {
    api: ['/session', ...figures],
    code: path.startsWith(accountsPath) ? [drawing] : (codeOfOperator[path] ?? []),
  }
}
