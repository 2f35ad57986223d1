import { setTimeout as pause } from 'node:timers/promises'
import { storageAt } from './calls.ts'
import type { Outcome } from './cases.ts'
import { figure } from './figures.ts'
import { measureRound, openSession, pidsOf, rowOf } from './measure.ts'
import type { Lane, Row } from './measure.ts'
import { openFilesLimit, readUsage } from './proc.ts'
import type { ServerName, Stage } from './stage.ts'
import { spreadOf } from './stats.ts'

/** What 10,000 sockets may add, in MB. */
const target = 120

/** Calls per second, one on each socket: all at once would measure a burst. */
const rate = 2500

/** Memory that open WebSockets take, each after one call. */
export const idleSockets = async (stage: Stage): Promise<Outcome> => {
  // Either end needs one file per socket, and some for itself.
  const count = Math.min(stage.effort.idleSockets, openFilesLimit() - 500)
  const own = await openAndRest(stage, 'gateway', 'tollgate', `ws/v3/${stage.keys.good}`, count)
  const bare = await openAndRest(stage, 'ws', 'bare ws', '', count)
  const title = (name: string) => `${count.toLocaleString('en')} idle sockets add to ${name}`
  return {
    rows: [own.row, bare.row],
    figures: [
      figure(title('tollgate'), 'MB', spreadOf([own.added]), count === 10_000 ? target : undefined),
      figure(title('bare ws'), 'MB', spreadOf([bare.added])),
    ],
  }
}

const openAndRest = async (
  stage: Stage,
  kind: ServerName,
  name: string,
  path: string,
  lines: number,
): Promise<{ row: Row; added: number | undefined }> => {
  const server = await stage.start(kind)
  try {
    await pause(stage.effort.rest)
    const rest = readUsage(pidsOf(server))?.rss
    const lane: Lane = { name, server: kind, path, transport: 'ws:', lines, calls: storageAt }
    const opened = { lane, server, session: await openSession(stage, lane, server), rest }
    const round = await measureRound(stage, opened, { ms: (1000 * lines) / rate, rate })
    await pause(stage.effort.rest)
    const then = readUsage(pidsOf(server))?.rss
    await opened.session.close()
    return { row: rowOf(opened, [round]), added: then === undefined || rest === undefined ? undefined : then - rest }
  } finally {
    await server.stop()
  }
}
