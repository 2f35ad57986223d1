import { spawn, spawnSync } from 'node:child_process'
import { copyFileSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import { rootDir } from '../tools/source-files.ts'

const createFolder = (t: Test): string => {
  // Not below the repository: npm looks for the root of a workspace.
  const dir = realpathSync(mkdtempSync(join(tmpdir(), 'tollgate-setup-')))
  t.teardown(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}

const writeJson = (file: string, content: object): void => {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, JSON.stringify(content))
}

/** Runs a program to its end. */
const runIn = (cwd: string, program: string, ...args: readonly string[]): void => {
  const { status, stderr } = spawnSync(program, args, { cwd, encoding: 'utf8' })
  if (status !== 0) throw new Error(`${program} failed: ${stderr}`)
}

const pack = (dir: string, name: string, version: string): void => {
  writeJson(join(dir, 'package/package.json'), { name, version })
  runIn(dir, 'tar', '-czf', `${name}-${version}.tgz`, 'package')
}

const require = (dir: string, version: string, minNode = '20.19'): void =>
  writeJson(join(dir, 'package.json'), {
    workspaces: ['test'],
    engines: { node: `>=${minNode}` },
    dependencies: { running: `file:running-${version}.tgz` },
  })

/** A project with the set-up of this one, a package that its package.json needs, and one that only its test/package.json needs. */
const template = createFolder(t)
mkdirSync(join(template, 'src/cli'), { recursive: true })
copyFileSync(join(rootDir, 'src/cli/setup.mjs'), join(template, 'src/cli/setup.mjs'))
pack(template, 'testing', '1.0.0')
writeJson(join(template, 'test/package.json'), { name: 'tests', devDependencies: { testing: 'file:../testing-1.0.0.tgz' } })
// Both before anything is installed: where something is, npm also lists as installed what it only locks.
for (const version of ['2.0.0', '1.0.0']) {
  pack(template, 'running', version)
  require(template, version)
  runIn(template, 'npm', 'install', '--package-lock-only', '--offline', '--no-audit', '--no-fund')
  copyFileSync(join(template, 'package-lock.json'), join(template, `lock-${version}.json`))
}

const createProject = (t: Test) => {
  const dir = createFolder(t)
  cpSync(template, dir, { recursive: true })
  return {
    dir,
    require: (version: string, minNode?: string): void => require(dir, version, minNode),
    /** Changes package.json and the lock file, as a pull does. */
    pull: (version: string): void => {
      require(dir, version)
      copyFileSync(join(dir, `lock-${version}.json`), join(dir, 'package-lock.json'))
    },
    /** The version that is installed. */
    installed: (name: string): string | undefined => {
      const file = join(dir, 'node_modules', name, 'package.json')
      return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as { readonly version: string }).version : undefined
    },
    setUp: (...args: readonly string[]) => {
      const { status, stderr } = spawnSync(process.execPath, ['src/cli/setup.mjs', '--packages', ...args], { cwd: dir, encoding: 'utf8' })
      return { status, stderr }
    },
  }
}

const installs = { status: 0, stderr: /^set-up: installing packages\nset-up: done in \d+ s\n$/ }
const isDone = { status: 0, stderr: '' }

t.test('what running needs is installed alone, what tests need is added, and neither takes away what the other uses', async t => {
  const project = createProject(t)
  t.match(project.setUp('--without-tests'), installs)
  t.same(['running', 'testing'].map(project.installed), ['1.0.0', undefined])
  t.same(project.setUp('--without-tests'), isDone)

  const used = join(project.dir, 'node_modules/running/used')
  writeFileSync(used, '')
  t.match(project.setUp(), installs)
  t.same(['running', 'testing'].map(project.installed), ['1.0.0', '1.0.0'])
  t.ok(existsSync(used), 'it is not installed again')
  t.same([project.setUp('--without-tests'), project.setUp()], [isDone, isDone])

  project.pull('2.0.0')
  const locked = readFileSync(join(project.dir, 'package-lock.json'), 'utf8')
  t.match(project.setUp('--without-tests'), installs)
  t.same(['running', 'testing'].map(project.installed), ['2.0.0', '1.0.0'])
  t.same(project.setUp(), isDone)
  t.equal(readFileSync(join(project.dir, 'package-lock.json'), 'utf8'), locked)
})

t.test('what npm prints is shown when it fails, and a Node.js that is too old is refused', t => {
  const project = createProject(t)
  project.require('2.0.0')
  const failed = project.setUp('--without-tests')
  t.match(failed, { status: 1, stderr: /are in sync[^]*\nset-up: npm ci .* failed\n$/ })
  project.require('1.0.0', '99.1')
  t.same(project.setUp(), { status: 1, stderr: `set-up: Node.js ${process.versions.node} is too old: 99.1 or newer is needed\n` })
  t.end()
})

t.test('a set-up waits for the one that runs, and takes over the lock of one that was killed', async t => {
  const project = createProject(t)
  const lock = join(project.dir, 'dist/.setup.lock')
  mkdirSync(dirname(lock))
  const owner = spawn(process.execPath, ['--eval', 'process.stdin.resume()'])
  t.teardown(() => owner.kill('SIGKILL'))
  writeFileSync(lock, String(owner.pid))
  const waiting = spawn(process.execPath, ['src/cli/setup.mjs', '--packages', '--without-tests'], { cwd: project.dir })
  const printed = text(waiting.stderr)
  await new Promise(resolve => waiting.stderr.once('data', resolve))
  t.equal(project.installed('running'), undefined)
  owner.kill('SIGKILL')
  t.match(await printed, /^set-up: waiting for the set-up that process \d+ runs .*\nset-up: installing packages\nset-up: done in \d+ s\n$/)
  t.equal(project.installed('running'), '1.0.0')
  t.notOk(existsSync(lock))
})

const hasScript = process.platform === 'linux' && existsSync('/usr/bin/script')

t.test('on a terminal the line of a step counts the seconds', { skip: hasScript ? false : 'no script(1) of util-linux' }, t => {
  const project = createProject(t)
  const command = `${process.execPath} src/cli/setup.mjs --packages`
  const { stdout } = spawnSync('script', ['--quiet', '--command', command, '/dev/null'], { cwd: project.dir, encoding: 'utf8' })
  t.match(
    stdout,
    /^\r\u001b\[Kset-up: installing packages 0 s(?:\r\u001b\[Kset-up: installing packages \d+ s)*\r\nset-up: done in \d+ s\r\n$/,
  )
  t.end()
})
