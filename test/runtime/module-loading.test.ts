import { spawnSync } from 'node:child_process'
import { chmodSync, chownSync, existsSync, statSync } from 'node:fs'
import nodeModule from 'node:module'
import { join } from 'node:path'
import t from '../support/tap.ts'
import { makePrivateFolder } from '../../src/runtime/compile-cache.ts'
import { mainPath } from '../support/deployment.ts'

/** Node.js 20 keeps none. */
const keepsCompiledCode = 'enableCompileCache' in nodeModule

t.test('a command keeps its compiled code in the cache folder of the user, and runs on where that cannot be written', t => {
  const dir = t.testdir({ file: 'no folder' })
  const run = (folders: { readonly XDG_CACHE_HOME?: string; readonly HOME?: string }) => {
    const options = { cwd: dir, env: { PATH: process.env.PATH, ...folders }, encoding: 'utf8' } as const
    const { status, stdout, stderr } = spawnSync(process.execPath, [mainPath, 'show', '--help'], options)
    t.match({ status, stdout, stderr }, { status: 0, stdout: /show \[/, stderr: '' })
  }
  run({ XDG_CACHE_HOME: join(dir, 'cache') })
  t.equal(existsSync(join(dir, 'cache/tollgate')), keepsCompiledCode)
  run({ XDG_CACHE_HOME: join(dir, 'file') })
  run({ HOME: '' })
  t.notOk(existsSync(join(dir, '.cache')), 'the current folder is not a home')
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
