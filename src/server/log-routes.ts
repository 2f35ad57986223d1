import type Koa from 'koa'
import type { AccessLogControl, AccessLogSettings } from '../services/access-log.ts'
import { LogFileError } from '../services/line-writer.ts'
import { isLogLevel, logLevels } from '../services/log-settings.ts'
import type { Log, RootLog } from '../services/log.ts'
import type { MaybePromise } from '../util/async.ts'
import { isJsonObject } from '../util/json.ts'

/** The logs of all processes of the gateway, which may be changed while it runs. */
export interface LogControls {
  readonly logLevel: Pick<RootLog, 'level'>
  readonly accessLog: AccessLogControl
  readonly log: Log
}

export const respondLevel = (ctx: Koa.Context, { logLevel }: Pick<LogControls, 'logLevel'>): void => {
  ctx.body = { level: logLevel.level }
}

export const setLevel = (ctx: Koa.Context, options: Pick<LogControls, 'logLevel' | 'log'>): void => {
  const { body } = ctx.request
  const level = isJsonObject(body) ? body['level'] : undefined
  if (!isLogLevel(level)) {
    ctx.status = 400
    ctx.body = { error: `level must be one of ${logLevels.join(', ')}`, levels: logLevels }
    return
  }
  options.log.warn({ event: 'log-level', from: options.logLevel.level, to: level }, `log level set to ${level}`)
  options.logLevel.level = level
  respondLevel(ctx, options)
}

export const respondAccessLog = (ctx: Koa.Context, { accessLog }: Pick<LogControls, 'accessLog'>): void => {
  ctx.body = accessLog.settings
}

/** Members that are missing stay as they are. */
export const setAccessLog = async (ctx: Koa.Context, { accessLog, log }: LogControls): Promise<void> => {
  const problem = isJsonObject(ctx.request.body) ? findProblem(ctx.request.body, accessLog.hasFile) : 'the body must be a JSON object'
  if (problem !== undefined) return respondError(ctx, 400, problem)
  const from = accessLog.settings
  const to = { ...from, ...(ctx.request.body as Partial<AccessLogSettings>) } // findProblem() has checked it
  if (!(await usesLogFile(ctx, () => accessLog.change(to)))) return
  log.warn({ event: 'access-log', from, to }, 'access log changed')
  respondAccessLog(ctx, { accessLog })
}

export const reopenAccessLog = async (ctx: Koa.Context, { accessLog }: Pick<LogControls, 'accessLog'>): Promise<void> => {
  if (await usesLogFile(ctx, () => accessLog.reopen())) respondAccessLog(ctx, { accessLog })
}

/** False, and 409 with the reason, when a file cannot be opened. */
const usesLogFile = async (ctx: Koa.Context, change: () => MaybePromise<void>): Promise<boolean> => {
  try {
    await change()
    return true
  } catch (error) {
    if (!(error instanceof LogFileError)) throw error
    respondError(ctx, 409, error.message)
    return false
  }
}

const respondError = (ctx: Koa.Context, status: number, error: string): void => {
  ctx.status = status
  ctx.body = { error }
}

type Check = (value: unknown) => string | undefined

const findProblem = (body: Readonly<Record<string, unknown>>, hasFile: boolean): string | undefined => {
  const targets = ['none', 'stdout', ...(hasFile ? ['file'] : [])]
  const checks: Readonly<Record<keyof AccessLogSettings, Check>> = {
    target: value => (targets.includes(String(value)) ? undefined : `must be one of ${targets.join(', ')}`),
    sample: value => (typeof value === 'number' && value >= 0 && value <= 1 ? undefined : 'must be a number from 0 to 1'),
  }
  for (const [name, value] of Object.entries(body)) {
    if (!Object.hasOwn(checks, name)) return `${name} is unknown: expected ${Object.keys(checks).join(', ')}`
    const problem = checks[name as keyof AccessLogSettings](value)
    if (problem !== undefined) return `${name} ${problem}`
  }
  return undefined
}
