import { setTimeout as pause } from 'node:timers/promises'
import type { Outcome } from './cases.ts'
import { figure } from './figures.ts'
import { pidsOf } from './measure.ts'
import { readUsage } from './proc.ts'
import type { ServerName, Stage } from './stage.ts'
import { spreadOf } from './stats.ts'

/** How soon a process serves, and its memory when it has done nothing yet; without the probe. */
export const coldStart = async (stage: Stage): Promise<Outcome> => {
  const [own, bare]: [Started[], Started[]] = [[], []]
  for (let i = 0; i < stage.effort.starts; i++) {
    own.push(await startOnce(stage, 'gateway'))
    bare.push(await startOnce(stage, 'http'))
  }
  const startups = (all: readonly Started[]) => spreadOf(all.map(each => each.startup))
  const memories = (all: readonly Started[]) => spreadOf(all.map(each => each.rest))
  return {
    rows: [],
    figures: [
      figure('cold start of tollgate until it listens', 'ms', startups(own), 500),
      figure('cold start of bare node:http', 'ms', startups(bare)),
      figure('idle memory of tollgate', 'MB', memories(own), 100),
      figure('idle memory of bare node:http', 'MB', memories(bare)),
    ],
  }
}

interface Started {
  readonly startup: number
  readonly rest: number | undefined
}

const startOnce = async (stage: Stage, kind: ServerName): Promise<Started> => {
  const server = await stage.start(kind, 'bare')
  try {
    await pause(stage.effort.rest)
    return { startup: server.startup, rest: readUsage(pidsOf(server))?.rss }
  } finally {
    await server.stop()
  }
}
