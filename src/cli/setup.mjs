// Installs the packages and compiles where that is needed. npm runs it before `start`, `test`, `bench` and the like.
// Plain JavaScript without dependencies: it runs before any package is installed.
//
//   --packages    installs the packages only
//   --build       also builds what is built already
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))))
process.chdir(root)

const lockFile = 'package-lock.json'
const lock = 'dist/.setup.lock'
/** With it, tsc writes no file whose source is unchanged, even one that was deleted. */
const compilerState = 'dist/.tsbuildinfo'
const buildStamp = 'dist/.sources'
const pageFolder = 'src/portal/page'
const pageStamp = 'dist/.page'
const wasmConfig = 'src/json/wasm/asconfig.json'
const buildFilesStamp = 'dist/.build-files'

/** How long a process waits before it looks at the lock again. */
const lockRetryMs = 100

/** What npm or tsc may print; a compiler that fails on every file prints a lot. */
const maxOutputBytes = 64 << 20

const installStep = { title: 'installing packages (half a minute)', isDone: isInstalled, run: install }
const compileStep = { title: 'compiling', isDone: isCompiled, run: compile }
const buildFilesStep = { title: 'parsing method tables, compiling schemas, bundling', isDone: areBuildFilesWritten, run: writeBuildFiles }
const pageStep = { title: 'building the dashboard', isDone: isPageBuilt, run: buildPage }

const steps = process.argv.includes('--packages') ? [installStep] : [installStep, compileStep, buildFilesStep, pageStep]

const isBuild = process.argv.includes('--build')

checkNode()
if (isBuild || !steps.every(step => step.isDone())) withLock(runSteps)

function checkNode() {
  const minVersion = JSON.parse(readFileSync('package.json', 'utf8')).engines.node.replace('>=', '')
  const isOld = minVersion.localeCompare(process.versions.node, 'en', { numeric: true }) > 0
  if (isOld) fail(`Node.js ${process.versions.node} is too old: ${minVersion} or newer is needed`)
}

function runSteps() {
  if (isBuild) for (const file of [compilerState, buildStamp, buildFilesStamp, pageStamp]) rmSync(file, { force: true })
  steps.forEach(runStep)
}

function runStep(step) {
  if (step.isDone()) return
  log(step.title)
  step.run()
}

/** Two set-ups at once (of `npm start` and `npm test`, say) would overwrite each other's files: the second waits for the first. */
function withLock(work) {
  mkdirSync(dirname(lock), { recursive: true })
  let owner = takeLock()
  if (owner !== undefined) log(`waiting for the set-up that process ${owner} runs (if it does not: delete ${lock})`)
  while (owner !== undefined) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, lockRetryMs)
    owner = takeLock()
  }
  process.on('exit', () => rmSync(lock, { force: true }))
  work()
}

/** Undefined when this process holds the lock now, else the id of the process that holds it. The lock of a dead process is taken over. */
function takeLock() {
  try {
    writeFileSync(lock, String(process.pid), { flag: 'wx' })
    return undefined
  } catch (error) {
    if (error.code !== 'EEXIST') throw error
  }
  const owner = Number(readIfExists(lock))
  if (isAlive(owner)) return owner
  rmSync(lock, { force: true })
  return takeLock()
}

function isAlive(pid) {
  try {
    return pid > 0 && process.kill(pid, 0)
  } catch (error) {
    return error.code === 'EPERM'
  }
}

/** True when node_modules holds what package-lock.json requires: npm lists what it installed in a file of the same form. */
function isInstalled() {
  const installed = readIfExists('node_modules/.package-lock.json')
  if (installed === undefined || !existsSync(lockFile)) return installed !== undefined
  const found = JSON.parse(installed).packages
  return Object.entries(JSON.parse(readIfExists(lockFile)).packages).every(
    ([path, { version, optional }]) => path === '' || (optional && !found[path]) || found[path]?.version === version,
  )
}

function install() {
  const command = existsSync(lockFile) ? 'ci' : 'install'
  // The compiler and the local node are dev dependencies, which NODE_ENV=production would leave out.
  run('npm', [command, '--include=dev', '--no-audit', '--no-fund', '--loglevel=error'])
}

function isCompiled() {
  return readIfExists(buildStamp) === fingerprint([...sources(), wasmConfig, 'tsconfig.json', lockFile])
}

function compile() {
  const stamp = fingerprint([...sources(), wasmConfig, 'tsconfig.json', lockFile])
  rmSync(buildStamp, { force: true })
  runNode('node_modules/typescript/bin/tsc', [])
  runNode('node_modules/assemblyscript/bin/asc.js', ['--config', wasmConfig])
  removeOrphans()
  writeFileSync(buildStamp, stamp)
}

function sources() {
  return filesIn('.', ['src', 'plugins', 'test']).filter(file => file.endsWith('.ts') && !file.startsWith(`${pageFolder}/`))
}

/** Removes compiled files that have no source any more: a deleted test would still run. */
function removeOrphans() {
  const stems = new Set(sources().map(file => file.slice(0, -'.ts'.length)))
  const compiled = filesIn('dist', ['src', 'plugins', 'test']).filter(file => file.endsWith('.d.ts'))
  for (const stem of compiled.map(file => file.slice(0, -'.d.ts'.length)).filter(stem => !stems.has(stem))) {
    for (const ending of ['.d.ts', '.js', '.js.map']) rmSync(join('dist', stem + ending), { force: true })
  }
}

function areBuildFilesWritten() {
  return readIfExists(buildFilesStamp) === buildFilesFingerprint()
}

function writeBuildFiles() {
  rmSync(buildFilesStamp, { force: true })
  runNode('dist/src/cli/write-build-files.js', [])
  writeFileSync(buildFilesStamp, buildFilesFingerprint())
}

function buildFilesFingerprint() {
  return fingerprint([buildStamp, ...filesIn('.', ['configs/methods'])])
}

function isPageBuilt() {
  return readIfExists(pageStamp) === pageFingerprint()
}

function buildPage() {
  rmSync(pageStamp, { force: true })
  rmSync('dist/page', { recursive: true, force: true })
  runNode('node_modules/vite/bin/vite.js', ['build', '--config', `${pageFolder}/vite.config.ts`, '--logLevel', 'warn'])
  writeFileSync(pageStamp, pageFingerprint())
}

function pageFingerprint() {
  return fingerprint([...filesIn('.', [pageFolder]).filter(file => !statSync(file).isDirectory()), lockFile])
}

function fingerprint(files) {
  const hash = createHash('sha256')
  for (const file of files) hash.update(`${file}\n`).update(readIfExists(file) ?? '')
  return hash.digest('hex')
}

/** Paths relative to `base`, in a fixed order. */
function filesIn(base, folders) {
  return folders
    .filter(folder => existsSync(join(base, folder)))
    .sort()
    .flatMap(folder =>
      readdirSync(join(base, folder), { recursive: true })
        .map(file => join(folder, file))
        .sort(),
    )
}

function readIfExists(file) {
  return existsSync(file) ? readFileSync(file, 'utf8') : undefined
}

function runNode(script, args) {
  run(process.execPath, [script, ...args])
}

/** The output of the program is shown only when the program fails. */
function run(program, args) {
  const { status, error, stdout, stderr } = spawnSync(program, args, {
    encoding: 'utf8',
    maxBuffer: maxOutputBytes,
    shell: process.platform === 'win32' && program === 'npm',
  })
  if (status === 0) return
  process.stderr.write(`${stdout ?? ''}${stderr ?? ''}`)
  fail(`${[program, ...args].join(' ')} failed${error ? `: ${error.message}` : ''}`)
}

function log(line) {
  console.error(`set-up: ${line}`)
}

function fail(line) {
  log(line)
  process.exit(1)
}
