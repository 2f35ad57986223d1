import { isFailure } from '../plugin/reply.ts'
import type { Reply } from '../plugin/reply.ts'
import type { CallObserver } from '../services/access-log.ts'
import type { Clock } from '../services/clock.ts'
import { cutAndMaskKeys } from '../util/key-mask.ts'
import { plain } from '../util/style.ts'
import type { Style } from '../util/style.ts'
import { formatCount } from '../util/units.ts'
import type { Terminal } from './command.ts'

type ObservedCall = Parameters<CallObserver>[0]

interface CallLinesOptions {
  readonly clock: Pick<Clock, 'now'>
  /** Rejects where it cannot be found out now: the id is shown. */
  accountName(id: string): Promise<string | undefined>
}

/** Prints one line for each call, in the order of the calls, for whoever watches `tollgate dev`. */
export const createCallLines = ({ out, styleOut = plain }: Terminal, { clock, accountName }: CallLinesOptions): CallObserver => {
  const names = new Map<string, string>()
  const nameOf = async (id: string): Promise<string> => {
    const known = names.get(id)
    if (known !== undefined) return known
    const name = (await accountName(id).catch(() => undefined)) ?? id
    names.set(id, name)
    return name
  }
  let printed = Promise.resolve()
  return call => {
    const time = new Date(clock.now()).toTimeString().slice(0, 'hh:mm:ss'.length)
    printed = printed.then(async () =>
      out(formatCall(call, time, call.accountId === undefined ? '-' : await nameOf(call.accountId), styleOut)),
    )
  }
}

const formatCall = ({ method, status, reply, durationMs = 0 }: ObservedCall, time: string, account: string, style: Style): string => {
  const { credits = 0, cache, upstream = '' } = reply ?? {}
  return [
    style('minor', time),
    (method === undefined ? '-' : shownMethod(method)).padEnd(methodChars),
    account.padEnd(accountChars),
    `${formatCount(credits).padStart(creditsChars)} credits`,
    (cache === 'hit' ? 'cache hit' : '').padEnd('cache hit'.length),
    `${durationMs.toFixed(1)} ms`.padStart(durationChars),
    // Last, as these may be of any length.
    style(reply === undefined || isFailure(reply) ? 'error' : 'ok', outcomeOf(reply, status)),
    upstream,
  ]
    .join('  ')
    .trimEnd()
}

/** `ok`, `params (-32602)`; `HTTP 404` of a request without a call. */
const outcomeOf = (reply: Reply | undefined, status: number | undefined): string => {
  if (reply === undefined) return status === undefined ? 'no answer' : `HTTP ${status}`
  return isFailure(reply) ? `${reply.kind} (${reply.error.code})` : 'ok'
}

/** The name comes from the caller: it must not move the cursor, and may be an API key that was pasted. */
const shownMethod = (method: string): string => cutAndMaskKeys(method, maxMethodChars).replace(/[^ -~]/g, '?')

const maxMethodChars = 40
const methodChars = 26
const accountChars = 8
const creditsChars = 5
const durationChars = 9
