import { createCheck } from './check.ts'
import type { Expected } from './check.ts'
import { Drive } from './drive.ts'
import type { Pace } from './drive.ts'
import { openHttp } from './http.ts'
import type { Line } from './line.ts'
import { openSocket } from './ws.ts'

// The process that calls. Orders come over IPC and are carried out one after another or side by side, as they come.

/** Connections that wait with their call: opened once, used for several runs. */
export interface Opening {
  readonly kind: 'open'
  readonly url: string
  /** How many; the URL's scheme says whether they are HTTP connections or WebSockets. */
  readonly lines: number
  /** With `#id#`, `#hex#` and `#some#` where they belong. */
  readonly message: string
  readonly expected: Expected
}

/** What this process does; the answer to `open` names the session, that to `run` is a Loaded. */
export type Order =
  | Opening
  | { readonly kind: 'run'; readonly session: number; readonly pace: Pace }
  | { readonly kind: 'close'; readonly session: number }

/** Connections that are being opened at once: fewer than any server lets wait to be accepted. */
const atOnce = 64

const sessions: { drive: Drive; lines: readonly Line[] }[] = []

const open = async ({ url, lines: count, message, expected }: Opening): Promise<number> => {
  const drive = new Drive(message, createCheck(expected))
  const target = new URL(url)
  const openLine = target.protocol === 'ws:' ? openSocket : openHttp
  const lines: Line[] = []
  while (lines.length < count) {
    const next = Array.from({ length: Math.min(atOnce, count - lines.length) }, () => openLine(target, drive))
    lines.push(...(await Promise.all(next)))
  }
  drive.use(lines)
  return sessions.push({ drive, lines }) - 1
}

const carryOut = (order: Order): unknown => {
  if (order.kind === 'open') return open(order)
  const session = sessions[order.session]
  if (order.kind === 'run') return session?.drive.run(order.pace)
  for (const line of session?.lines ?? []) line.close()
  return undefined
}

process.on('message', async ({ id, order }: { id: number; order: Order }) => {
  try {
    process.send?.({ id, value: await carryOut(order) })
  } catch (fault) {
    process.send?.({ id, fault: (fault as Error).message })
  }
})
process.on('disconnect', () => process.exit())
