import { existsSync } from 'node:fs'
import { basename } from 'node:path'
import { checkOptions } from '../config/check-options.ts'
import { readNetworkConfig } from '../config/network-config.ts'
import type { NetworkReadContext } from '../config/network-config.ts'
import type { Problem } from '../config/problem.ts'
import type { NetworkConfig } from '../config/types.ts'
import { readYamlFile } from '../config/yaml-file.ts'
import type { YamlFile } from '../config/yaml-file.ts'
import type { Json } from '../plugin/plugin.ts'
import type { Path } from '../util/json.ts'
import type { Plan } from '../plugin/call.ts'
import { isJsonArray, isJsonObject } from '../util/json.ts'
import { caseFileSchema } from './case-schema.ts'
import type { Case, CaseFile, CaseStep } from './case-schema.ts'
import type { FakeUpstream } from './fake-upstreams.ts'
import type { WorldOptions } from './fake-services.ts'
import { scriptIssues } from './fake-upstreams.ts'
import { openNetworkHarness, toCallResponse } from './network-harness.ts'
import type { CallerOptions, Harness, MessageLimits, MessageResponse } from './network-harness.ts'

/** What all networks of a configuration have in common. */
interface CaseContext extends Omit<NetworkReadContext, 'env'> {
  /** Those of gateway.yaml, as far as it could be read. */
  readonly plans?: Readonly<Record<string, Plan>> | undefined
  readonly limits?: MessageLimits | undefined
}

/** The outcome of one file of cases. */
export interface CaseReport {
  readonly passed: number
  readonly failed: number
  /** Of the files, or of cases: each at its place in the file. */
  readonly problems: readonly Problem[]
}

/** Runs the cases of `networks/NAME.test.yaml` on the network of `networks/NAME.yaml`. */
export const runCases = async (casesPath: string, networkPath: string, context: CaseContext): Promise<CaseReport> => {
  const source = readYamlFile(casesPath)
  if (source.value === undefined) return notRun(source.problems)
  const { options: file, problems } = checkOptions({ source, namePath: [], owner: '', schema: caseFileSchema })
  if (file === undefined || source.problems.length > 0) return notRun([...source.problems, ...problems])
  if (!existsSync(networkPath)) {
    const name = basename(networkPath)
    return notRun([
      source.problemAtKey(['cases'], `there is no network file ${name} beside this file`, `restore ${name}, or rename or remove this file`),
    ])
  }
  const { config, unserved, problems: networkProblems } = await readNetworkConfig(networkPath, { ...context, env: file.env })
  if (config === undefined) {
    const missing = unserved && source.problemAtKey(['env'], `the network needs ${unserved.variables.join(', ')}`, 'give values in `env`')
    return notRun([...networkProblems, ...(missing ? [missing] : [])])
  }
  const found: Problem[] = scriptProblems(source, file)
  if (found.length > 0) return notRun(found)
  let failed = 0
  for (const [i, each] of file.cases.entries()) {
    const ofCase = await runCase(each, { source, config, file, context, path: ['cases', i] })
    if (ofCase.length > 0) failed += 1
    found.push(...ofCase)
  }
  return { passed: file.cases.length - failed, failed, problems: found }
}

const scriptProblems = (source: YamlFile, { cases }: CaseFile): Problem[] =>
  cases.flatMap(({ upstream = {}, upstreams = {} }, i) => {
    const scripts = [
      { at: ['upstream'], script: upstream },
      ...Object.entries(upstreams).map(([name, script]) => ({ at: ['upstreams', name], script })),
    ]
    const issues = scripts.flatMap(({ at, script }) => scriptIssues(script, ['cases', i, ...at]))
    return issues.map(({ path, message }) => source.problemAt(path, message))
  })

const notRun = (problems: readonly Problem[]): CaseReport => ({ passed: 0, failed: 0, problems })

interface CaseRun {
  readonly source: YamlFile
  readonly config: NetworkConfig
  readonly file: CaseFile
  readonly context: CaseContext
  readonly path: Path
}

const runCase = async (each: Case, run: CaseRun): Promise<readonly Problem[]> => {
  const { source, config, context, path } = run
  const toProblems = (error: unknown): readonly Problem[] => [
    source.problemAtKey(path, `${each.name}: ${error instanceof Error ? error.message : String(error)}`),
  ]
  try {
    const gateway = await openNetworkHarness(config, worldOf(each, run), context.limits)
    const problems = await runSteps(gateway, each, run).catch(toProblems)
    // A stop that hangs fails after a bounded time; after a call that is stuck, that would be the same problem again.
    const stopProblems = await gateway.stop().then(() => [], toProblems)
    return problems.length > 0 ? problems : stopProblems
  } catch (error) {
    return toProblems(error)
  }
}

/** A step that fails ends its case: what follows would follow from it. */
const runSteps = async (gateway: Harness, each: Case, run: CaseRun): Promise<readonly Problem[]> => {
  for (const [i, step] of each.steps.entries()) {
    const problems = await runStep(gateway, step, { ...run, path: [...run.path, 'steps', i], name: each.name, caller: each })
    if (problems.length > 0) return problems
  }
  return []
}

const worldOf = ({ upstream, upstreams }: Case, { file, context }: CaseRun): WorldOptions => {
  const plans = file.plans ?? context.plans
  const keyOfEachPlan = plans && Object.fromEntries(Object.keys(plans).map(name => [name, { plan: name }]))
  const keys = file.keys ?? keyOfEachPlan
  return {
    ...(plans && { plans }),
    ...(keys && { keys }),
    // scriptProblems() has checked them.
    ...(upstream !== undefined && { upstream: upstream as FakeUpstream }),
    ...(upstreams && { upstreams: upstreams as Readonly<Record<string, FakeUpstream>> }),
  }
}

interface StepRun extends CaseRun {
  /** Of the case. */
  readonly name: string
  /** The case itself, whose caller is that of each step. */
  readonly caller: Case
}

const runStep = async (gateway: Harness, step: CaseStep, { source, path, name, caller }: StepRun): Promise<readonly Problem[]> => {
  if (step.wait !== undefined) await gateway.advance(step.wait)
  const message = messageOf(step)
  if (message === undefined) {
    const isOnlyWait = step.wait !== undefined && step.expect === undefined && step.reached === undefined
    return isOnlyWait ? [] : [source.problemAtKey(path, `${name}: the step sends nothing`, 'write `send: METHOD`, or only `wait: 10s`')]
  }
  const requestsBefore = gateway.requests.length
  const linesBefore = gateway.log.lines.length
  const response = toSubject(await gateway.send(message, callerOf(step, caller)))
  const reached = gateway.requests.slice(requestsBefore)
  const place = (key: string, expected: unknown, actual: unknown, hint: string): readonly Problem[] =>
    differencesOf(expected, actual).map(({ path: at, message: text }) => source.problemAt([...path, key, ...at], `${name}: ${text}`, hint))
  return [
    ...place(
      'expect',
      step.expect ?? (isJsonArray(response as Json) ? [] : {}),
      response,
      `the whole response was ${formatJson(response)}${describeBug(gateway.log.lines.slice(linesBefore))}`,
    ),
    ...(step.reached === undefined
      ? []
      : place(
          'reached',
          expandReached(step.reached),
          reached,
          `what went upstream was ${formatJson(reached.map(({ method }) => method))}`,
        )),
  ]
}

/** Callers get `internal error` alone; the log has what a plugin threw, and where. */
const describeBug = (lines: Harness['log']['lines']): string => {
  const fields = lines.find(({ message }) => message === 'internal error')?.fields
  if (fields === undefined || !('stack' in fields)) return ''
  const [message = '', place = ''] = String(fields.stack).split('\n')
  return `; the log has: ${message} ${place.trim()}`
}

/** A method stands for a request of it. */
const expandReached = (reached: unknown): unknown =>
  Array.isArray(reached) ? reached.map((item: unknown) => (typeof item === 'string' ? { method: item } : item)) : reached

const messageOf = ({ send, params, raw }: CaseStep): Json | undefined => {
  if (raw !== undefined) return raw
  if (typeof send === 'string') return withEnvelope({ method: send, params: (params ?? []) as Json }, 1)
  if (Array.isArray(send)) return send.map((request: unknown, i) => withEnvelope(request as Json, i + 1)) // from YAML, as are the others
  return send === undefined ? undefined : withEnvelope(send as Json, 1)
}

const withEnvelope = (request: Json, id: number): Json => (isJsonObject(request) ? { jsonrpc: '2.0', id, ...request } : request)

const callerOf = (step: CaseStep, all: Case): CallerOptions => {
  const key = Object.hasOwn(step, 'key') ? step.key : all.key
  const headers = step.headers ?? all.headers
  const origin = step.origin ?? all.origin
  const ip = step.ip ?? all.ip
  return {
    ...(key !== undefined && { key: key === null ? null : String(key) }),
    ...(headers && { headers }),
    ...(origin !== undefined && { origin }),
    ...(ip !== undefined && { ip }),
  }
}

/** What `expect` is compared with. */
const toSubject = (response: MessageResponse): unknown => {
  const { status, body } = response
  if (body === undefined) return { status }
  if (isJsonArray(body)) return body
  return { ...(isJsonObject(body) && { id: body['id'] }), ...toCallResponse(response) }
}

/** A value that is not the expected one, and where. */
interface Difference {
  readonly path: Path
  readonly message: string
}

/** Where `actual` lacks what `expected` has: maps are contained, lists are equal in length, and a text between slashes is a pattern. */
const differencesOf = (expected: unknown, actual: unknown, path: Path = []): readonly Difference[] => {
  if (Array.isArray(expected)) return listDifferences(expected, actual, path)
  if (isJsonObject(expected)) {
    if (!isJsonObject(actual)) return [difference(path, expected, actual)]
    return Object.entries(expected).flatMap(([name, value]) =>
      differencesOf(value, Object.hasOwn(actual, name) ? actual[name] : undefined, [...path, name]),
    )
  }
  return isAccepted(expected, actual) ? [] : [difference(path, expected, actual)]
}

const listDifferences = (expected: readonly unknown[], actual: unknown, path: Path): readonly Difference[] => {
  if (!Array.isArray(actual) || actual.length !== expected.length) return [difference(path, expected, actual)]
  return expected.flatMap((item, i) => differencesOf(item, actual[i], [...path, i]))
}

const isAccepted = (expected: unknown, actual: unknown): boolean => {
  const pattern = typeof expected === 'string' ? /^\/(.+)\/$/.exec(expected)?.[1] : undefined
  return pattern === undefined ? expected === actual : typeof actual === 'string' && new RegExp(pattern).test(actual)
}

const difference = (path: Path, expected: unknown, actual: unknown): Difference => ({
  path,
  message: `expected ${formatJson(expected)}, got ${actual === undefined ? 'nothing' : formatJson(actual)}`,
})

const maxShownChars = 400

/** JSON on one line, shortened. */
const formatJson = (value: unknown): string => {
  const text = JSON.stringify(value) ?? 'nothing'
  return text.length > maxShownChars ? `${text.slice(0, maxShownChars)}…` : text
}
