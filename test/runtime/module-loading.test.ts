import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const atOnce = fileURLToPath(new URL('../../src/runtime/module-loading.js', import.meta.url))

t.test('what is loaded at once is there at once, with all that it needs, and is what is imported afterwards', async t => {
  const dir = t.testdir({
    'main.mjs': `
      import { loadModulesSync } from '${atOnce}'
      loadModulesSync(new URL('./outer.mjs', import.meta.url))
      console.log('loaded')
      const [outer, inner] = [await import('./outer.mjs'), await import('./inner.mjs')]
      console.log(outer.inner === inner.inner)`,
    'outer.mjs': `export { inner } from './inner.mjs'; console.log('outer')`,
    'inner.mjs': `export const inner = {}; console.log('inner')`,
  })
  // tap loads itself into every Node.js process that a test starts, but for this.
  const { stdout, stderr } = spawnSync('env', ['-u', 'NODE_OPTIONS', process.execPath, join(dir, 'main.mjs')], { encoding: 'utf8' })
  t.strictSame([stdout, stderr], ['inner\nouter\nloaded\ntrue\n', ''])
})
