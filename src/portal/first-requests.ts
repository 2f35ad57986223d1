// What the pages read from the API at first. The HTML file asks for it, so that browsers send these requests while they load the code of the page.

/** Of nobody's session. */
const openPaths = ['/sign-in', '/confirm-email', '/status']

export const firstRequestsOfDeveloper = (path: string): readonly string[] => {
  if (openPaths.includes(path)) return []
  return ['/session', '/account', ...(path === '/' ? ['/usage?range=24h&by=method&series=0', '/networks'] : [])]
}

/** `range` is that of the charts, as the query of the page has it. */
export const firstRequestsOfOperator = (path: string, range: unknown): readonly string[] => {
  if (path !== '/operator') return ['/session']
  const activity = `/overview/activity?range=${range === '24h' ? '24h' : '1h'}`
  return ['/session', '/overview', '/overview/nodes', '/overview/accounts', '/overview/incidents', activity]
}
