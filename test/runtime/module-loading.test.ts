import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import nodeModule from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { mainPath } from '../support/deployment.ts'

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

t.test(
  'a command keeps its compiled code in the cache folder of the user where Node.js can, and runs on where that cannot be written',
  t => {
    const dir = t.testdir({ file: 'no folder' })
    const run = (cacheDir: string) => {
      const env = { PATH: process.env.PATH, XDG_CACHE_HOME: cacheDir }
      const { status, stdout, stderr } = spawnSync(process.execPath, [mainPath, 'show', '--help'], { env, encoding: 'utf8' })
      t.match({ status, stdout, stderr }, { status: 0, stdout: /show \[/, stderr: '' })
    }
    run(join(dir, 'cache'))
    t.equal(existsSync(join(dir, 'cache/tollgate')), 'enableCompileCache' in nodeModule)
    run(join(dir, 'file'))
    t.end()
  },
)
