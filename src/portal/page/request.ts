import { signal, useSignal } from '@preact/signals'
import type { ReadonlySignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { updateClock } from './clock.ts'
import { hasEnded } from './session-end.ts'
import { texts } from './texts.ts'

const toSentence = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? '' : '.')

/** The gateway refused; the message is a sentence for people, and `field` the member that is wrong. */
export class RequestError extends Error {
  readonly status: number
  readonly field: string | undefined
  readonly code: string | undefined
  /** The message beside the label of the field: without the name that programs have for it. */
  readonly fieldMessage: string

  constructor(status: number, message: string, { field = '', code }: { readonly field?: string; readonly code?: string } = {}) {
    const [name = '', item] = field.split('.')
    const rule = name !== '' && message.startsWith(`${field} `) ? message.slice(field.length + 1) : undefined
    const ofItem = item === undefined ? '' : `${texts.each} `
    super(toSentence(rule === undefined || item === undefined ? message : `${name}: ${ofItem}${rule}`))
    this.status = status
    this.code = code
    this.field = field === '' ? undefined : field
    this.fieldMessage = rule === undefined ? this.message : toSentence(rule === 'is missing' ? texts.fieldMissing : `${ofItem}${rule}`)
  }
}

interface ConnectionProblem {
  readonly text: string
  /** The gateway answers, its store does not. */
  readonly ofStore: boolean
  /** In ms since 1970. */
  readonly since: number
}

/** Why the last request found no gateway, or a gateway without its store; else undefined. */
export const connectionProblem = signal<ConnectionProblem | undefined>(undefined)

/** Routes that read no store answer while others fail: what has failed must succeed, or fail no more for longer than pages read again. */
const lastStoreFailure = { url: '', at: -Infinity }
const storeFailureMs = 20_000

const isStoreStillDown = (url: string): boolean =>
  connectionProblem.value?.ofStore === true && url !== lastStoreFailure.url && Date.now() - lastStoreFailure.at < storeFailureMs

/** What the last request has found; the time of the first of several that found the same stays. */
export const reportConnection = (text: string | undefined, ofStore = false): void => {
  const { text: before, since = Date.now() } = connectionProblem.value ?? {}
  if (text !== before) connectionProblem.value = text === undefined ? undefined : { text, ofStore, since }
}

/** When figures were read last, in ms since 1970 by the clock of the browser. */
export const lastReadAt = signal<number | undefined>(undefined)

/** How often figures on a page are read again. */
export const refreshIntervalMs = 15_000

const signedOutListeners: (() => void)[] = []

/** Calls `listener` when a request is refused because nobody is signed in. */
export const onSignedOut = (listener: () => void): void => void signedOutListeners.push(listener)

let signInCount = 0

/** Somebody is signed in, as the gateway says: that requests from before are refused says nothing any more. */
export const recordSignIn = (): void => void (signInCount += 1)

type Verb = 'GET' | 'POST' | 'PATCH' | 'DELETE'

/** Rejects with RequestError alone. */
export const send = async <T>(verb: Verb, url: string, body?: object): Promise<T> => {
  const failToConnect = (): never => {
    reportConnection(texts.notConnected)
    // What is only read is read again.
    throw new RequestError(0, verb === 'GET' ? texts.notConnected : texts.notSent)
  }
  const signInsBefore = signInCount
  const response = await fetch(url, {
    method: verb,
    ...(body !== undefined && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  }).catch(failToConnect)
  const isEmpty = response.status === 204 // the routes without a response
  // What is not JSON, or has no error as the API writes it, comes from a proxy that does not reach the gateway.
  const json = isEmpty ? undefined : await response.json().catch(failToConnect)
  if (!response.ok && typeof json?.error?.message !== 'string') failToConnect()
  if (json?.error?.code === 'store-unavailable') {
    Object.assign(lastStoreFailure, { url, at: Date.now() })
    reportConnection(toSentence(json.error.message), true)
  } else if (!isStoreStillDown(url)) reportConnection(undefined)
  if (isEmpty) return undefined as T
  if (response.ok && verb === 'GET') {
    lastReadAt.value = Date.now()
    updateClock()
  }
  if (response.ok) return json
  if (response.status === 401 && signInsBefore === signInCount) for (const listener of signedOutListeners) listener()
  throw new RequestError(response.status, json.error.message, json.error)
}

const apiPath = '/api/v1'

/** A request to the API. */
export const request = <T>(verb: Verb, path: string, body?: object): Promise<T> => send(verb, apiPath + path, body)

/** A request of the HTML file, which the browser has sent while it was still loading the code. */
interface FirstRequest {
  readonly response: Promise<unknown>
  /** Once it has arrived. */
  value?: unknown
}

/** What the page shows at first, by path; each until it was read once. */
const firstRequests = new Map<string, FirstRequest>()

for (const { href } of document.querySelectorAll<HTMLLinkElement>('link[rel=preload][as=fetch]')) {
  const { pathname, search } = new URL(href)
  const path = pathname.slice(apiPath.length) + search
  const response = request<unknown>('GET', path)
  const begun: FirstRequest = { response }
  firstRequests.set(path, begun)
  response.then(
    value => (begun.value = value),
    // Who asks for it gets the error.
    () => undefined,
  )
}

/** Resolves when all of them have been answered. */
export const firstResponses: Promise<unknown> = Promise.allSettled(Array.from(firstRequests.values(), ({ response }) => response))

export const isFirstRequest = (path: string): boolean => firstRequests.has(path)

export const get = <T>(path: string): Promise<T> => {
  const begun = firstRequests.get(path)
  firstRequests.delete(path)
  return begun === undefined ? request<T>('GET', path) : (begun.response as Promise<T>) // of this path
}

// What was read for one person is shown to no other, and nothing is shown that a page has not asked for soon.
onSignedOut(() => firstRequests.clear())
setTimeout(() => firstRequests.clear(), refreshIntervalMs)

// What the browser knows at once; the next request notices the rest.
addEventListener('offline', () => reportConnection(texts.notConnected))
addEventListener('online', () => void get('/session').catch(() => undefined))

/** A timer may be early by less. */
const maxEarlyMs = 50

/** Runs with all others of the same interval: what a page shows side by side is of one moment. Returns how to end that. */
const repeatTogether = (run: () => void, intervalMs: number): (() => void) => {
  const wait = (): number => intervalMs + maxEarlyMs - ((performance.now() + maxEarlyMs) % intervalMs)
  const repeat = (): void => {
    run()
    timer = setTimeout(repeat, wait())
  }
  let timer = setTimeout(repeat, wait())
  return () => clearTimeout(timer)
}

/** What useRequest() reads. */
export interface Loaded<T> {
  readonly data: ReadonlySignal<T | undefined>
  readonly error: ReadonlySignal<string | undefined>
  /** The data are those of the path before: the others are being read. */
  readonly isOutdated: boolean
  reload(): void
  /** Shows what a change was answered with. */
  show(value: T): void
}

/**
 * Reads from the API, and again while the page is shown, unless the interval is Infinity. After an error the last data stay. Without a path,
 * nothing is read yet.
 */
export const useRequest = <T>(path: string | undefined, intervalMs = refreshIntervalMs): Loaded<T> => {
  const data = useSignal(firstRequests.get(path ?? '')?.value as T | undefined) // of this path
  const error = useSignal<string | undefined>(undefined)
  const shownPath = useSignal(path)
  // Responses arrive in any order. None is shown that was asked for before `oldest`: what is shown is of this path, and never becomes older.
  const reads = useRef({ path, count: 0, oldest: 0 }).current
  reads.path = path
  const load = (): void => {
    const asked = reads.path
    if (asked === undefined) return
    const number = (reads.count += 1)
    const showUnlessOutdated = (update: () => void): void => {
      if (number < reads.oldest) return
      reads.oldest = number
      update()
    }
    void get<T>(asked).then(
      value => showUnlessOutdated(() => ([data.value, error.value, shownPath.value] = [value, undefined, asked])),
      (reason: Error) => showUnlessOutdated(() => (error.value = reason.message)),
    )
  }
  const dropEarlierReads = (): void => {
    reads.oldest = reads.count + 1
  }
  useEffect(() => {
    if (hasEnded.value || path === undefined) return undefined
    dropEarlierReads()
    load()
    if (intervalMs === Infinity) return undefined
    return repeatTogether(() => document.visibilityState === 'visible' && load(), intervalMs)
  }, [path, hasEnded.value])
  const show = (value: T): void => {
    dropEarlierReads()
    ;[data.value, shownPath.value] = [value, reads.path]
  }
  return { data, error, isOutdated: shownPath.value !== path, reload: load, show }
}
