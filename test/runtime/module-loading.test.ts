import { spawnSync } from 'node:child_process'
import { chmodSync, chownSync, existsSync, readFileSync, readdirSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from '../support/tap.ts'
import { makePrivateFolder } from '../../src/runtime/compile-cache.ts'
import { mainPath } from '../support/deployment.ts'

const urlOf = (name: string): string => new URL(`../../src/runtime/${name}.js`, import.meta.url).href

t.test('what is loaded at once is there at once, with all that it needs, and is what is imported afterwards', async t => {
  const dir = t.testdir({
    'main.mjs': `
      import { loadModulesSync } from '${urlOf('module-loading')}'
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

t.test('a command keeps its compiled code in the cache folder of the user, and runs on where that cannot be written', t => {
  const dir = t.testdir({ file: 'no folder' })
  const run = (folders: { readonly XDG_CACHE_HOME?: string; readonly HOME?: string }) => {
    const options = { cwd: dir, env: { PATH: process.env.PATH, ...folders }, encoding: 'utf8' } as const
    const { status, stdout, stderr } = spawnSync(process.execPath, [mainPath, 'show', '--help'], options)
    t.match({ status, stdout, stderr }, { status: 0, stdout: /show \[/, stderr: '' })
  }
  run({ XDG_CACHE_HOME: join(dir, 'cache') })
  t.ok(existsSync(join(dir, 'cache/tollgate')))
  run({ XDG_CACHE_HOME: join(dir, 'file') })
  run({ HOME: '' })
  t.notOk(existsSync(join(dir, '.cache')), 'the current folder is not a home')
  t.end()
})

t.test('compiled code of CommonJS modules is used as long as the source is the same and the code is whole', t => {
  const dir = t.testdir({
    'main.mjs': `
      import { createRequire } from 'node:module'
      import { keepCommonJsCode } from '${urlOf('compile-cache')}'
      import { openGcHints } from '${urlOf('gc-hints')}'
      const save = keepCommonJsCode(new URL('cache', import.meta.url).pathname)
      const require = createRequire(import.meta.url)
      require('./early.cjs')
      openGcHints() // from here on, the flags of V8 are not those of the next start
      const { answer, loadOther } = require('./module.cjs')
      console.log(answer(), (await loadOther()).default, require('./esm.js').default, require.cache[require.resolve('./module.cjs')].filename)
      try { require('./wrong.cjs') } catch (error) { console.log(error.name) }
      save()`,
    'early.cjs': 'exports.isEarly = true',
    'module.cjs': '#!/usr/bin/env node\nmodule.exports = require("./answer.cjs")',
    'answer.cjs': 'exports.answer = () => 111; exports.loadOther = require("./importing.cjs")',
    'importing.cjs': 'module.exports = () => import/* for Node.js */("./other.mjs")',
    'other.mjs': 'export default "other"',
    'esm.js': 'export default "esm"',
    'package.json': '{ "type": "module" }',
    'wrong.cjs': 'exports.= 1',
  })
  const run = (...flags: readonly string[]) => {
    const { stdout } = spawnSync('env', ['-u', 'NODE_OPTIONS', process.execPath, ...flags, join(dir, 'main.mjs')], { encoding: 'utf8' })
    const paths = readdirSync(join(dir, 'cache'), { recursive: true, encoding: 'utf8' }).map(path => join(dir, 'cache', path))
    const files = paths.filter(path => statSync(path).isFile())
    return { stdout, files, times: files.map(file => statSync(file).mtimeMs) }
  }
  const first = run()
  t.equal(first.stdout, `111 other esm ${join(dir, 'module.cjs')}\nSyntaxError\n`)
  t.equal(first.files.length, 2, 'early.cjs and answer.cjs')
  t.same(run(), first, 'the code was used: nothing is written')

  for (const file of first.files) {
    const content = readFileSync(file)
    writeFileSync(file, content.fill(0, content.length >> 1))
  }
  t.equal(run().stdout, first.stdout, 'the code is damaged')
  t.same(run().files, first.files)

  writeFileSync(join(dir, 'answer.cjs'), readFileSync(join(dir, 'answer.cjs'), 'utf8').replace('111', '222'))
  const changed = run()
  t.match(changed.stdout, '222 other', 'a source of the same length')
  t.equal(changed.files.length, 3)

  t.equal(run('--stack-size=800').files.length, 5, 'V8 has other flags: the two that are loaded are kept once more')
  const again = run()
  t.same(again.times.toSorted(), run().times.toSorted(), 'each process finds the code of its own flags')
  t.equal(again.files.length, 5)
  t.end()
})

t.test('a module whose compiled code is kept sees what it sees without, and so do the stacks of its errors', t => {
  const dir = t.testdir({
    'main.mjs': `
      import { createRequire } from 'node:module'
      import { keepCommonJsCode } from '${urlOf('compile-cache')}'
      const [,, isSupported] = process.argv
      const save = keepCommonJsCode(new URL('cache', import.meta.url).pathname, isSupported === 'default' ? undefined : isSupported === 'true')
      const require = createRequire(import.meta.url)
      console.log(JSON.stringify([require('./outer.cjs'), require('./mapped.cjs')]))
      save()`,
    'outer.cjs': `module.exports = [require('./inner.cjs'), module.children.map(({ id }) => id), module.loaded, require.main === module,
      Object.keys(require), require.resolve.paths('x'), arguments.length, this === exports, require('./data.json')]`,
    'inner.cjs': `exports.place = new Error().stack.split('\\n')[1]; exports.isCached = module.parent === require.cache[module.parent.id]`,
    'data.json': '{ "isData": true }',
    'mapped.cjs': 'exports.place = new Error().stack.split("\\n")[1]\n//# sourceMappingURL=mapped.cjs.map',
    'mapped.cjs.map': JSON.stringify({ version: 3, sources: ['mapped.ts'], names: [], mappings: 'AAAA' }),
  })
  const run = (isSupported: string, ...flags: readonly string[]): string => {
    const args = ['-u', 'NODE_OPTIONS', process.execPath, ...flags, join(dir, 'main.mjs'), isSupported]
    return spawnSync('env', args, { encoding: 'utf8' }).stdout
  }
  const byNode = run('false')
  t.match(byNode, 'inner.cjs:1:17')
  t.notOk(existsSync(join(dir, 'cache')), 'where Node.js is not as expected, nothing is kept')
  t.equal(run('default'), byNode)
  t.ok(existsSync(join(dir, 'cache')), 'this version of Node.js is as expected')
  t.equal(run('default'), byNode, 'from kept code')
  const mapped = run('default', '--enable-source-maps')
  t.match(mapped, 'mapped.ts:1')
  t.equal(mapped, run('false', '--enable-source-maps'))
  t.end()
})

t.test('of compiled code, the 4,000 files stay that were written last', t => {
  const dir = t.testdir({
    'main.mjs': `
      import { createRequire } from 'node:module'
      import { keepCommonJsCode } from '${urlOf('compile-cache')}'
      const save = keepCommonJsCode(new URL('cache', import.meta.url).pathname)
      createRequire(import.meta.url)(process.argv[2])
      save()`,
    'first.cjs': '',
    'second.cjs': '',
  })
  const run = (module: string): string => {
    spawnSync('env', ['-u', 'NODE_OPTIONS', process.execPath, join(dir, 'main.mjs'), module])
    return join(dir, 'cache', readdirSync(join(dir, 'cache'))[0] ?? '')
  }
  const folder = run('./first.cjs')
  const [first = ''] = readdirSync(folder)
  for (let i = 0; i < 4_000; i += 1) {
    writeFileSync(join(folder, `of-an-earlier-release-${i}`), '')
    utimesSync(join(folder, `of-an-earlier-release-${i}`), i, i)
  }
  run('./second.cjs')
  const left = readdirSync(folder)
  t.equal(left.length, 4_000)
  t.ok(left.includes(first))
  t.notOk(
    ['of-an-earlier-release-0', 'of-an-earlier-release-1'].some(name => left.includes(name)),
    'the oldest two of 4,002',
  )
  t.end()
})

t.test('compiled code is kept where no other user can write', { skip: process.platform === 'win32' && 'has no such permissions' }, t => {
  const dir = t.testdir({ open: {}, another: {} })
  const folder = join(dir, 'home/.cache/tollgate')
  t.ok(makePrivateFolder(folder))
  t.equal(statSync(folder).mode & 0o777, 0o700)
  t.ok(makePrivateFolder(folder), 'again')

  chmodSync(join(dir, 'open'), 0o777)
  t.notOk(makePrivateFolder(join(dir, 'open')), 'others can write to it')

  const isRoot = process.getuid?.() === 0
  const anothers = isRoot ? join(dir, 'another') : '/usr'
  if (isRoot) chownSync(anothers, 65534, 65534)
  t.notOk(makePrivateFolder(anothers), 'it belongs to another user')
  t.notOk(makePrivateFolder(join(anothers, '.cache/tollgate')), 'its parent belongs to another user')
  t.notOk(existsSync(join(anothers, '.cache')), 'nothing was made there')
  t.notOk(makePrivateFolder('/proc/none/tollgate'), 'where no folder can be made')
  t.end()
})
