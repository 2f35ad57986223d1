import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from '../support/tap.ts'
import { openFileWatch } from '../../src/config/config-files.ts'
import { TestClock } from '../support/fakes.ts'
import { waitUntil } from '../support/wait-until.ts'

const open = (dir: string) => {
  const clock = new TestClock()
  let changes = 0
  /** The poll is due. */
  let poll = () => {}
  const cancel = () => {
    poll = () => {}
  }
  const watch = openFileWatch(dir, {
    now: () => clock.now(),
    monotonic: () => clock.monotonic(),
    after: (ms, run) => clock.after(ms, run),
    every(_ms, run) {
      poll = run
      return { cancel }
    },
  })
  watch.start(() => {
    changes += 1
  })
  const pollAndSettle = () => {
    poll()
    clock.advance(200)
  }
  return { clock, watch, poll: () => poll(), pollAndSettle, changes: () => changes }
}

t.test('a change of the files', async t => {
  const dir = t.testdir({ 'gateway.yaml': 'a', networks: { 'one.yaml': 'b' }, methods: { 'ethereum.yaml': 'c' } })
  const file = join(dir, 'networks', 'one.yaml')
  const { clock, watch, poll, pollAndSettle, changes } = open(dir)

  t.test('is reported once the files have been the same for 200 ms', async t => {
    writeFileSync(file, 'b2')
    poll()
    writeFileSync(file, 'b3')
    clock.advance(200)
    t.equal(changes(), 0)
    clock.advance(200)
    t.equal(changes(), 1)
    pollAndSettle()
    t.equal(changes(), 1)
  })

  t.test('is a file more, a file less, and another method table; not another file, nor the same text again', async t => {
    for (const [i, change] of [
      () => writeFileSync(join(dir, 'networks', 'two.yaml'), 'd'),
      () => rmSync(join(dir, 'networks', 'two.yaml')),
      () => writeFileSync(join(dir, 'methods', 'ethereum.yaml'), 'c2'),
      () => writeFileSync(join(dir, 'gateway.yaml'), 'a2'),
    ].entries()) {
      change()
      pollAndSettle()
      t.equal(changes(), 2 + i)
    }
    writeFileSync(join(dir, 'networks', 'notes.txt'), 'e')
    writeFileSync(file, 'b3')
    pollAndSettle()
    t.equal(changes(), 5)
  })

  t.test('is not reported when it is known already, nor when it is undone in time', async t => {
    writeFileSync(file, 'b4')
    watch.acknowledge()
    pollAndSettle()
    writeFileSync(file, 'b5')
    poll()
    writeFileSync(file, 'b4')
    clock.advance(200)
    pollAndSettle()
    t.equal(changes(), 5)
  })

  t.test('is not reported after stop()', async t => {
    watch.stop()
    writeFileSync(file, 'b6')
    pollAndSettle()
    t.equal(changes(), 5)
  })
})

t.test('a file that an editor replaces, and the linked directory of a ConfigMap, are reported again and again, without a poll', async t => {
  const dir = t.testdir({ v1: { 'gateway.yaml': '1' } })
  symlinkSync('v1', join(dir, '..data'))
  symlinkSync('..data/gateway.yaml', join(dir, 'gateway.yaml'))
  mkdirSync(join(dir, 'networks'))
  const { clock, watch, changes } = open(dir)
  t.teardown(() => watch.stop())
  /** Time passes, without a poll. */
  const noticed = async (count: number) => {
    await waitUntil(() => {
      clock.advance(20)
      return changes() === count
    })
  }
  for (let version = 2; version <= 4; version++) {
    mkdirSync(join(dir, `v${version}`))
    writeFileSync(join(dir, `v${version}`, 'gateway.yaml'), String(version))
    symlinkSync(`v${version}`, join(dir, '..data_tmp'))
    renameSync(join(dir, '..data_tmp'), join(dir, '..data'))
    await noticed(version - 1)
  }
  for (let i = 0; i < 3; i++) {
    writeFileSync(join(dir, 'networks', '.one.yaml.swp'), String(i))
    renameSync(join(dir, 'networks', '.one.yaml.swp'), join(dir, 'networks', 'one.yaml'))
    await noticed(4 + i)
  }
})
