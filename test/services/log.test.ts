import { pino } from 'pino'
import t from 'tap'
import { logLevels, openLog } from '../../src/services/log.ts'

/** A log, and the levels of the lines that it wrote. */
const open = (level: (typeof logLevels)[number]) => {
  const lines: string[] = []
  const destination = {
    write(line: string) {
      const { level, msg } = JSON.parse(line)
      lines.push(`${pino.levels.labels[level]} ${msg}`)
    },
  }
  return { lines, log: openLog(level, destination) }
}

t.test('the levels are those of pino', async t => {
  t.same(logLevels, [...Object.keys(pino.levels.values).sort((a, b) => pino.levels.values[a]! - pino.levels.values[b]!), 'silent'])
})

t.test('a level that is set holds for children that were made before it, and for their children', async t => {
  const { lines, log } = open('warn')
  const child = log.child({ network: 'a' })
  const grandchild = child.child({ plugin: 'b' })
  const write = (): readonly string[] => {
    for (const [name, each] of Object.entries({ log, child, grandchild })) {
      each.info({}, name)
      each.error({}, name)
    }
    return lines.splice(0)
  }
  const errors = ['error log', 'error child', 'error grandchild']
  t.same(write(), errors)
  log.level = 'debug'
  t.equal(log.level, 'debug')
  t.same(write(), ['info log', 'error log', 'info child', 'error child', 'info grandchild', 'error grandchild'])
  log.level = 'error'
  t.same(write(), errors)
  log.level = 'silent'
  t.same(write(), [])
})
