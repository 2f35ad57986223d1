import { spawnSync } from 'node:child_process'
import t from 'tap'
import { findMinorCollector, openGcHints } from '../../src/runtime/gc-hints.ts'

t.test('this V8 has a minor collection, and the flags that are set', async t => {
  const collect = findMinorCollector()
  t.type(collect, 'function')
  t.doesNotThrow(() => collect?.())
  const { stdout } = spawnSync(process.execPath, ['--v8-options'], { encoding: 'utf8' })
  for (const flag of ['allocation-site-pretenuring', 'concurrent-array-buffer-sweeping', 'expose-gc'])
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
