import { setTimeout as wait } from 'node:timers/promises'
import { readGatewayConfig } from '../config/gateway-config.ts'
import { parseDuration } from '../config/formats.ts'
import { printProblems } from '../config/problem.ts'
import { localAdminUrl } from '../server/listener-urls.ts'
import { describeFetchError, openAdminFetch } from './gateway-status.ts'
import type { FetchAdmin } from './gateway-status.ts'
import { systemClock } from '../services/clock.ts'
import type { Clock } from '../services/clock.ts'
import { configOption, jsonOption, readArguments } from './args.ts'
import { UsageError, commandSummaries, exitCodes } from './command.ts'
import type { Command, CommandOption, Terminal } from './command.ts'
import { runUntilSignal } from './stop-signals.ts'
import { formatOverview } from './top/format-overview.ts'
import { overviewOf } from './top/overview.ts'
import type { Scrape } from './top/overview.ts'
import { parseMetrics } from './top/parse-metrics.ts'
import { dayMs } from '../util/dates.ts'
import { truncate } from '../util/style.ts'

const options = {
  url: {
    type: 'string',
    placeholder: 'URL',
    description: 'The URL of the admin listener. Default: `listen.admin` of the configuration.',
  },
  interval: { type: 'string', placeholder: 'DURATION', default: '2s', description: 'The time between two readings.' },
  once: { type: 'boolean', default: false, description: 'Prints one interval and ends, as it also does off a terminal.' },
  json: jsonOption,
  config: configOption,
} as const satisfies Readonly<Record<string, CommandOption>>

interface TopOptions {
  readonly clock: Pick<Clock, 'monotonic'>
  /** Keeps the process alive, unlike a timer of the clock. Resolves at once when the signal is aborted. */
  wait(ms: number, signal?: AbortSignal): Promise<unknown>
  /** The size of the terminal; undefined where standard output is none. */
  size(): { readonly rows: number; readonly columns: number } | undefined
}

/** Shows what a running gateway does, from two readings of its metrics after the other. */
export const createTopCommand = ({ clock, wait, size }: TopOptions): Command => ({
  name: 'top',
  summary: commandSummaries.top,
  usage: ['top [--once] [--json] [--interval DURATION] [--url URL] [--config DIR]'],
  positionals: {},
  options,
  examples: {
    top: 'redraws every 2 s until Ctrl-C',
    'top --once --json --interval 10s': 'one reading of 10 s, for programs',
  },
  async run(args, terminal) {
    const { values } = readArguments(args, [], options)
    const intervalMs = parseDuration(values.interval) ?? 0
    if (intervalMs === 0 || intervalMs > dayMs)
      throw new UsageError(`--interval must be a duration such as 2s, and at most 1d, not "${values.interval}"`)
    const listener = values.url === undefined ? await adminListenerOf(values.config, terminal) : { url: values.url, fetch }
    if (listener === undefined) return exitCodes.config
    const { url } = listener
    const scrape = () => scrapeMetrics(listener, clock)
    const isLive = size() !== undefined && !values.once && !values.json
    try {
      const first = await scrape()
      if (isLive)
        return await runUntilSignal(['SIGINT', 'SIGTERM'], stopRequested =>
          watch(first, {
            scrape,
            nextReading: signal => wait(intervalMs, signal),
            intervalMs,
            stopRequested,
            terminal,
            size,
          }),
        )
      await wait(intervalMs)
      const overview = overviewOf(first, await scrape())
      for (const line of values.json ? [JSON.stringify(overview)] : formatOverview(overview, terminal.styleOut)) terminal.out(line)
      return exitCodes.ok
    } catch (error) {
      terminal.err(`tollgate top: cannot read the metrics of ${url}: ${describeFetchError(error)}`)
      return exitCodes.failed
    }
  },
})

export const topCommand = createTopCommand({
  clock: systemClock,
  wait: (ms, signal) => wait(ms, undefined, { signal }).catch(() => undefined),
  size: () => (process.stdout.isTTY ? process.stdout : undefined),
})

interface AdminListener {
  readonly url: string
  readonly fetch: FetchAdmin
}

const adminListenerOf = async (dir: string, terminal: Terminal): Promise<AdminListener | undefined> => {
  const { config, problems } = readGatewayConfig(dir, terminal.env)
  printProblems(problems, terminal)
  if (config === undefined) return undefined
  const url = localAdminUrl(config)
  if (url === undefined) terminal.err(`tollgate top: ${dir}/gateway.yaml has no listen.admin: add it, or give --url`)
  return url === undefined ? undefined : { url, fetch: openAdminFetch(config) }
}

const scrapeTimeoutMs = 5_000

const scrapeMetrics = async ({ url, fetch }: AdminListener, clock: Pick<Clock, 'monotonic'>): Promise<Scrape> => {
  const response = await fetch(new URL('/metrics', url), { signal: AbortSignal.timeout(scrapeTimeoutMs) })
  if (!response.ok) throw new Error(`HTTP status ${response.status}`)
  return { families: parseMetrics(await response.text()), atMs: clock.monotonic() }
}

interface WatchOptions extends Pick<TopOptions, 'size'> {
  readonly scrape: () => Promise<Scrape>
  /** Resolves when the next reading is due, or the signal is aborted. */
  readonly nextReading: (signal: AbortSignal) => Promise<unknown>
  readonly intervalMs: number
  readonly stopRequested: Promise<unknown>
  readonly terminal: Pick<Terminal, 'out' | 'styleOut'>
}

const enterAlternateScreen = '\x1b[?1049h\x1b[?25l'
const leaveAlternateScreen = '\x1b[?25h\x1b[?1049l'
const cursorHome = '\x1b[H'
const clearRestOfLine = '\x1b[K'
const clearRestOfScreen = '\x1b[J'

/** Redraws the screen until a signal ends it. A reading that fails is shown, and the next one may succeed. */
const watch = async (first: Scrape, options: WatchOptions): Promise<number> => {
  const { scrape, nextReading, intervalMs, stopRequested, terminal, size } = options
  // Not a race with `stopRequested` at each reading: that promise would keep a reaction of every reading.
  const stopping = new AbortController()
  void stopRequested.then(() => stopping.abort())
  // What does not fit would scroll the rest out of place.
  const draw = (lines: readonly string[]): void => {
    const { rows, columns } = size() ?? { rows: lines.length + 1, columns: Infinity }
    const shown = lines.slice(0, rows - 1).map(line => `${truncate(line, columns)}${clearRestOfLine}`)
    terminal.out(`${cursorHome}${shown.join('\n')}${clearRestOfScreen}`)
  }
  terminal.out(enterAlternateScreen)
  draw(['reading the metrics …'])
  for (let before = first; ; ) {
    await nextReading(stopping.signal)
    if (stopping.signal.aborted) break
    try {
      const now = await scrape()
      draw([...formatOverview(overviewOf(before, now), terminal.styleOut), '', `every ${intervalMs / 1000} s; Ctrl-C ends`])
      before = now
    } catch (error) {
      draw([`the gateway does not answer: ${describeFetchError(error)}`])
    }
  }
  terminal.out(leaveAlternateScreen)
  return exitCodes.ok
}
