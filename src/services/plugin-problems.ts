import { isoTime } from '../util/dates.ts'
import type { Clock } from './clock.ts'
import { metricDefinitions } from './metric-definitions.ts'
import type { Metrics } from './metrics.ts'

export const problemSeverities = ['critical', 'warning'] as const

export type ProblemSeverity = (typeof problemSeverities)[number]

/** What a plugin reports of a state that an operator should act on. */
interface ReportedProblem {
  /** `critical`: callers notice. */
  readonly severity: ProblemSeverity
  /** For operators, without secrets: what is wrong, and what to do. Cut after 500 characters. */
  readonly text: string
}

/** Problems of one plugin of a network: operators see them while they last, in one list with those of nodes. */
export interface ProblemReports {
  /**
   * The problem lasts from now on; where it lasts already, its text and severity are replaced. The name is in kebab-case, and the plugin's own. Throws
   * RangeError for another name, and for more than 20 of them. Returns how to end this report of it: without effect once another one has replaced it.
   */
  begin(name: string, problem: ReportedProblem): () => void
  /** It is over. All end once no pipeline has the plugin. */
  end(name: string): void
}

/** A problem, as one process has it; plain data, so that workers can send it to the primary. */
export interface PluginProblem extends ReportedProblem {
  readonly network: string
  /** The name of its step. */
  readonly plugin: string
  readonly name: string
  /** In ms since 1970. */
  readonly since: number
}

/** Such as `verify beacon-behind`. */
export const kindOfProblem = ({ plugin, name }: Pick<PluginProblem, 'plugin' | 'name'>): PluginProblemKind => `${plugin} ${name}`

export type PluginProblemKind = `${string} ${string}`

/** As operators read it: of all processes together. */
export interface NetworkProblem extends Omit<PluginProblem, 'network' | 'since'> {
  /** ISO 8601. */
  readonly since: string
}

const maxNames = 20
const maxNameChars = 64
const maxTextChars = 500

/** The problems that plugins of this process report. */
export class PluginProblems {
  readonly #services: { readonly clock: Pick<Clock, 'now'>; readonly metrics: Metrics }
  readonly #problems = new Set<Map<string, PluginProblem>>()

  constructor(services: { readonly clock: Pick<Clock, 'now'>; readonly metrics: Metrics }) {
    this.#services = services
  }

  /** For the plugin of one step, until close(). */
  open(network: string, plugin: string): ProblemReports & { close(): void } {
    const { clock, metrics } = this.#services
    const lasting = new Map<string, PluginProblem>()
    const names = new Set<string>()
    this.#problems.add(lasting)
    const measure = ({ name, severity }: Pick<PluginProblem, 'name' | 'severity'>, value: 0 | 1): void =>
      metrics.gauge(metricDefinitions.pluginProblem, { network, plugin, problem: name, severity }).set(value)
    const end = (name: string): void => {
      const problem = lasting.get(name)
      if (problem !== undefined) measure(problem, 0)
      lasting.delete(name)
    }
    return {
      begin: (name, { severity, text }) => {
        if (!/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/.test(name) || name.length > maxNameChars)
          throw new RangeError(`the name of a problem is in kebab-case, and has at most ${maxNameChars} characters`)
        if (!problemSeverities.includes(severity)) throw new RangeError(`the severity of a problem is ${problemSeverities.join(' or ')}`)
        if (names.add(name).size > maxNames) throw new RangeError(`a plugin has problems of at most ${maxNames} names`)
        // A late report of a plugin that has been stopped.
        if (!this.#problems.has(lasting)) return () => undefined
        const before = lasting.get(name)
        if (before !== undefined && before.severity !== severity) measure(before, 0)
        const since = before?.since ?? clock.now()
        const problem: PluginProblem = { network, plugin, name, severity, text: text.slice(0, maxTextChars), since }
        lasting.set(name, problem)
        measure(problem, 1)
        return () => {
          if (lasting.get(name) === problem) end(name)
        }
      },
      end,
      close: () => {
        for (const name of [...lasting.keys()]) end(name)
        this.#problems.delete(lasting)
      },
    }
  }

  read(): readonly PluginProblem[] {
    return Array.from(this.#problems, lasting => [...lasting.values()]).flat()
  }
}

/** The problems that all processes of a gateway have, each once: as the one has it that sees it worst, since the first saw it. */
export const mergeProblems = (problems: readonly PluginProblem[]): readonly NetworkProblem[] => {
  const merged = new Map<string, PluginProblem>()
  for (const each of problems) {
    const key = kindOfProblem(each)
    const known = merged.get(key)
    const worst = known === undefined || (known.severity === 'warning' && each.severity === 'critical') ? each : known
    merged.set(key, { ...worst, since: Math.min(each.since, known?.since ?? each.since) })
  }
  return Array.from(merged.values(), ({ network: _, since, ...each }) => ({ ...each, since: isoTime(since) }))
}
