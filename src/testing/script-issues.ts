import { parseDuration } from '../config/formats.ts'
import type { Path } from '../plugin/plugin.ts'
import { isJsonObject } from '../util/json.ts'
import { didYouMean } from '../util/did-you-mean.ts'

/** What is wrong with the script of an upstream, and where. */
export interface ScriptIssue {
  readonly path: Path
  readonly message: string
}

const accepted = '{ result }, { error: { code, message } }, { status }, down, hang, or a list of these'

/** The issues of a FakeUpstream that the compiler has not checked. */
export const scriptIssues = (upstream: unknown, path: Path = []): readonly ScriptIssue[] => {
  if (upstream === 'down' || upstream === 'hang') return []
  if (!isJsonObject(upstream)) return [{ path, message: 'an upstream must be a map of methods, down or hang' }]
  return Object.entries(upstream).flatMap(([method, script]) => issuesOfScript(script, [...path, method]))
}

const issuesOfScript = (script: unknown, path: Path): readonly ScriptIssue[] => {
  if (typeof script === 'function') return []
  if (Array.isArray(script) && script.length > 0) return script.flatMap((response, i) => issuesOfResponse(response, [...path, i]))
  return issuesOfResponse(script, path)
}

const responseKeys = ['result', 'error', 'status', 'headers', 'body', 'after']

const issuesOfResponse = (response: unknown, path: Path): readonly ScriptIssue[] => {
  if (response === 'down' || response === 'hang') return []
  const kinds = isJsonObject(response) ? ['result', 'error', 'status'].filter(kind => Object.hasOwn(response, kind)) : []
  if (!isJsonObject(response) || kinds.length !== 1) return [{ path, message: `a response must be ${accepted}` }]
  const unknown = Object.keys(response).filter(key => !responseKeys.includes(key))
  const { error, after } = response as Readonly<Record<string, unknown>>
  return [
    ...unknown.map(key => ({
      path: [...path, key],
      message: `unknown key of a response; ${didYouMean(key, responseKeys) ?? `a response is ${accepted}`}`,
    })),
    ...(error === undefined || (isJsonObject(error) && Number.isInteger(error['code']) && typeof error['message'] === 'string')
      ? []
      : [{ path: [...path, 'error'], message: 'an error must have a code, which is an integer, and a message' }]),
    ...(after === undefined || typeof after === 'number' || parseDuration(String(after)) !== undefined
      ? []
      : [{ path: [...path, 'after'], message: 'after must be a duration such as 250ms, 10s or 5m' }]),
  ]
}
