import { spawnSync } from 'node:child_process'
import t from '../support/tap.ts'
import { collectGarbageOfStart, findMinorCollector, openGcHints } from '../../src/runtime/gc-hints.ts'

t.test('this V8 has a minor collection, and the flags that are set', async t => {
  const collect = findMinorCollector()
  t.type(collect, 'function')
  t.doesNotThrow(() => collect?.())
  const { stdout } = spawnSync(process.execPath, ['--v8-options'], { encoding: 'utf8' })
  for (const flag of [
    'allocation-site-pretenuring',
    'concurrent-array-buffer-sweeping',
    'expose-gc',
    'max-inlined-bytecode-size-cumulative',
    'semi-space-growth-factor',
  ])
    t.match(stdout, new RegExp(`--${flag} `))
})

t.test('a collection follows each 4 MiB of responses, in the next turn', async t => {
  let collections = 0
  const hintGc = openGcHints(() => () => {
    collections += 1
  })
  const collectionsAfter = async (byteLength: number) => {
    hintGc(byteLength)
    await new Promise(setImmediate)
    return collections
  }
  t.equal(await collectionsAfter((4 << 20) - 1), 0)
  t.equal(await collectionsAfter(1), 1)
  t.equal(await collectionsAfter(1), 1)
  t.equal(await collectionsAfter(4 << 20), 2)
})

t.test('without such a collection in V8 the hint does nothing', async t => {
  t.doesNotThrow(() => openGcHints(() => undefined)(8 << 20))
})

/** Something that nothing refers to, and that a minor collection leaves; V8 may begin a full one by itself at any time. */
const leftByMinorCollection = async (tries = 10): Promise<WeakRef<object>> => {
  const left = new WeakRef({})
  await new Promise(setImmediate) // until a turn ends, the reference holds what it refers to
  findMinorCollector()?.()
  const isLeft = left.deref() !== undefined
  await new Promise(setImmediate)
  if (isLeft) return left
  if (tries === 0) throw new Error('a minor collection leaves nothing')
  return leftByMinorCollection(tries - 1)
}

t.test('what a start has left is collected by a full collection', async t => {
  const left = await leftByMinorCollection()
  collectGarbageOfStart()
  t.equal(left.deref(), undefined)
})

t.test('process.nextTick() is as fast after full collections', async t => {
  // In a process of its own: what makes it slow lasts.
  const script = `
    const { holdTickShape } = await import(${JSON.stringify(new URL('../../src/runtime/gc-hints.js', import.meta.url))})
    const { setImmediate } = await import('node:timers/promises')
    const ignore = () => {}
    const fastestOf = async rounds => {
      let fastest = Infinity
      for (let i = 0; i < rounds; i++) {
        const startedAt = process.hrtime.bigint()
        for (let k = 0; k < 500; k++) process.nextTick(ignore)
        fastest = Math.min(fastest, Number(process.hrtime.bigint() - startedAt))
        await setImmediate()
      }
      return fastest
    }
    let renew
    holdTickShape((ms, run) => {
      renew = run
    })
    const warm = await fastestOf(200)
    renew()
    for (let i = 0; i < 12; i++) {
      await setImmediate()
      gc()
    }
    console.log(JSON.stringify([warm, await fastestOf(200)]))`
  const { stdout } = spawnSync(process.execPath, ['--expose-gc', '--input-type=module', '-e', script], { encoding: 'utf8' })
  const [before, after] = JSON.parse(stdout) as [number, number]
  t.ok(after < 3 * before, `500 take ${after} ns, and took ${before}`)
})
