import type Koa from 'koa'
import { LRUCache } from 'lru-cache'
import type { Timer } from '../services/clock.ts'
import { openEventStream } from '../server/event-stream.ts'
import type { EventStream } from '../server/event-stream.ts'
import { ApiError } from './api-errors.ts'
import type { Person } from './people/people.ts'
import type { PortalServices } from './portal-services.ts'
import { readAccountReport } from './routes/account.ts'

/** How often the figures are read, and sent if they have changed. */
const updateIntervalMs = 1_000

/** The same while the account has had no calls for a day, and somebody may wait for the first one. */
const firstCallIntervalMs = 400

/** Streams of one account share figures of this share of the interval: a page is open in many tabs. */
const sharedShare = 0.5
const maxSharedReports = 1_000

/** Each reads the store every second, where calls are served. The page has a stream only while it is looked at. */
const maxStreamsPerPerson = 20

/** Proxies close connections that are silent for a minute. */
const keepAliveIntervalMs = 20_000

/** The figures as a server-sent event. */
interface AccountEvent {
  readonly event: string
  /** The figures without the time, which changes each time. */
  readonly figures: string
  readonly hasCalls: boolean
}

interface SharedEvent {
  readonly readAt: number
  readonly event: Promise<AccountEvent>
}

type StreamServices = Pick<PortalServices, 'store' | 'plans' | 'clock' | 'startQueries'>

/** Server-sent events: `account` with what GET /account returns, each time that it has changed. */
export class AccountStreams {
  readonly #services: StreamServices
  /** By account. */
  readonly #shared = new LRUCache<string, SharedEvent>({ max: maxSharedReports })

  /** Streams by person, from their requests on. */
  readonly #open = new Map<string, number>()

  constructor(services: StreamServices) {
    this.#services = services
  }

  /**
   * Reads the first figures; an error is the response. The stream ends when `authenticate` rejects: the session or the token has ended, or
   * the store is unreachable. Rejects with ApiError where the person has as many streams as they may.
   */
  async open(ctx: Koa.Context, { id, account }: Person, authenticate: () => Promise<Person>): Promise<void> {
    if (ctx.res.destroyed) return
    if ((this.#open.get(id) ?? 0) >= maxStreamsPerPerson)
      throw new ApiError(429, 'too-many', `you have ${maxStreamsPerPerson} open streams of events: close one first`)
    this.#count(id, 1)
    // Of an error too.
    ctx.res.once('close', () => this.#count(id, -1))
    const first = await this.#read(account, updateIntervalMs)
    openEventStream(ctx, stream => this.#stream(stream, first, authenticate))
  }

  #count(person: string, change: 1 | -1): void {
    const open = (this.#open.get(person) ?? 0) + change
    if (open > 0) this.#open.set(person, open)
    else this.#open.delete(person)
  }

  #stream(stream: EventStream, first: AccountEvent, authenticate: () => Promise<Person>): void {
    const { clock, startQueries } = this.#services
    let last: AccountEvent | undefined
    let timer: Timer | undefined
    let isClosed = false
    const send = (next: AccountEvent): void => {
      if (next.figures !== last?.figures) stream.write(next.event)
      last = next
    }
    const update = async (intervalMs: number): Promise<void> => {
      try {
        if (stream.isWritable) send(await this.#read((await authenticate()).account, intervalMs))
        schedule()
      } catch {
        // The page connects again, and gets the error.
        stream.end()
      }
    }
    const schedule = (): void => {
      if (isClosed) return
      const intervalMs = last?.hasCalls === false ? firstCallIntervalMs : updateIntervalMs
      timer = clock.after(intervalMs, () => void update(intervalMs))
    }
    const keepAlives = clock.every(keepAliveIntervalMs, () => stream.isWritable && stream.write(': keep-alive\n\n'))
    stream.onClose(() => {
      isClosed = true
      timer?.cancel()
      keepAlives.cancel()
    })
    send(first)
    schedule()
    // The other pages have queries; the process of queries must not slow down the first figures.
    startQueries()
  }

  #read(account: string, intervalMs: number): Promise<AccountEvent> {
    const now = this.#services.clock.monotonic()
    const shared = this.#shared.get(account)
    if (shared !== undefined && now - shared.readAt < sharedShare * intervalMs) return shared.event
    const event = this.#readAnew(account)
    this.#shared.set(account, { readAt: now, event })
    return event
  }

  async #readAnew(account: string): Promise<AccountEvent> {
    const { now, ...report } = await readAccountReport(this.#services, account)
    const hasCalls = report.balance.used > 0 || report.hours.some(({ calls }) => calls > 0)
    return { event: `event: account\ndata: ${JSON.stringify({ ...report, now })}\n\n`, figures: JSON.stringify(report), hasCalls }
  }
}
