import { logs, storageAt, words } from './calls.ts'
import type { Outcome } from './cases.ts'
import { figure } from './figures.ts'
import { measureRound, openSession, rowOf } from './measure.ts'
import type { Lane, Round, Row } from './measure.ts'
import type { ServerName, Stage } from './stage.ts'
import { spreadOf } from './stats.ts'

/** Calls per second. */
const small = 500
const big = 5

/** Small calls alone, and while big answers run: who asks little must not wait for who asks much. */
export const smallBesideBig = async (stage: Stage): Promise<Outcome> => {
  const { good } = stage.keys
  const own = await alternate(stage, 'gateway', 'tollgate', `v3/${good}`)
  const piping = await alternate(stage, 'pipe', 'piping proxy', '')
  const rise = ([alone, beside]: readonly Row[]) =>
    spreadOf(beside?.rounds.map((round, i) => round.p99 - (alone?.rounds[i]?.p99 ?? 0)) ?? [])
  return {
    rows: [...own, ...piping],
    figures: [
      figure('p99 of small calls to tollgate rises by', 'ms', rise(own), 20),
      figure('p99 of small calls to the piping proxy rises by', 'ms', rise(piping)),
    ],
  }
}

const alternate = async (stage: Stage, kind: ServerName, name: string, path: string): Promise<readonly Row[]> => {
  const { paced: ms, rounds, warmUp } = stage.effort
  const server = await stage.start(kind)
  try {
    const lane: Lane = { name, server: kind, path, transport: 'http:', lines: 64, calls: storageAt, gap: 1 }
    const opened = { lane, server, session: await openSession(stage, lane, server), rest: undefined }
    const heavy = await openSession(stage, { ...lane, lines: 8, calls: logs(words.small) }, server, stage.secondLoad)
    const [alone, beside]: [Round[], Round[]] = [[], []]
    await opened.session.run({ ms: warmUp })
    await heavy.run({ ms: warmUp, rate: big })
    for (let i = 0; i < rounds; i++) {
      alone.push(withoutCpu(await measureRound(stage, opened, { ms, rate: small })))
      const both = [measureRound(stage, opened, { ms, rate: small }), heavy.run({ ms, rate: big })] as const
      beside.push(withoutCpu((await Promise.all(both))[0]))
    }
    return [rowOf(opened, alone, `${name}, alone`), rowOf(opened, beside, `${name}, beside big answers`)]
  } finally {
    await server.stop()
  }
}

/** So few calls cost mainly what it takes to wake up for each; and beside big answers it went into both kinds. */
const withoutCpu = ({ cpu: _both, collecting: _share, ...round }: Round): Round => round
