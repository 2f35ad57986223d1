import { constants, setPriority } from 'node:os'
import { setTimeout as pause } from 'node:timers/promises'

// The process of startBrowsers(): opens the page Overview as browsers do.

export interface OpenCommand {
  readonly portalUrl: string
  /** Of a session, as a Cookie header. */
  readonly cookie: string
  readonly perSecond: number
  /** 0: once. */
  readonly durationMs: number
}

/** The times in ms, each from the first request until the figures have arrived; or what went wrong. */
export type OpenReply = { readonly times: readonly number[] } | { readonly error: string }

/** At the constant rate, however long each takes. */
const openRepeatedly = async ({ durationMs, perSecond, ...page }: OpenCommand): Promise<readonly number[]> => {
  const opened = [openOverview(page)]
  for (const endMs = performance.now() + durationMs; performance.now() < endMs; opened.push(openOverview(page)))
    await pause(1_000 / perSecond)
  return Promise.all(opened)
}

/** What a browser requests that opens the page for somebody who is signed in, until the figures have arrived. Resolves with the time in ms. */
const openOverview = async ({ portalUrl, cookie }: Pick<OpenCommand, 'portalUrl' | 'cookie'>): Promise<number> => {
  const startMs = performance.now()
  const get = async (path: string): Promise<string> => {
    const response = await fetch(`${portalUrl}${path}`, { headers: { cookie } })
    if (response.status !== 200) throw new Error(`${path} was answered with ${response.status}`)
    return response.text()
  }
  const html = await get('/')
  await Promise.all([...html.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)].map(([, path]) => get(path ?? '')))
  await get('/api/v1/session')
  await readFirstFigures(`${portalUrl}/api/v1/events`, cookie)
  return performance.now() - startMs
}

const readFirstFigures = async (url: string, cookie: string): Promise<void> => {
  const { body } = await fetch(url, { headers: { cookie } })
  let received = ''
  for await (const bytes of body ?? []) {
    received += Buffer.from(bytes).toString()
    if (/^event: account\ndata: .*"hours"/m.test(received)) return
  }
  throw new Error('the stream of figures ended')
}

// Browsers run on other machines: here they get a core only while neither the gateway nor the load generator wants one.
setPriority(constants.priority.PRIORITY_LOW)
process.on('message', (command: OpenCommand) => {
  const reply = (message: OpenReply) => process.send?.(message)
  openRepeatedly(command).then(
    times => reply({ times }),
    (error: unknown) => reply({ error: String(error) }),
  )
})
