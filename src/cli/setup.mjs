// Installs the packages and compiles where that is needed. npm runs it before `start`, `test`, `bench` and the like.
// Plain JavaScript without dependencies: it runs before any package is installed.
//
//   --without-tests    leaves out the packages of test/package.json, and the tests
//   --packages         installs the packages only
//   --build            also builds what is built already
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))))
process.chdir(root)

const lockFile = 'package-lock.json'
const installedList = 'node_modules/.package-lock.json'
const lock = 'dist/.setup.lock'
const programStamp = 'dist/.sources'
const testStamp = 'dist/.test-sources'
/** With these, tsc writes no file whose source is unchanged, even one that was deleted. */
const programState = 'dist/.tsbuildinfo'
const testState = 'dist/.test-tsbuildinfo'
const pageFolder = 'src/portal/page'
/** What else the page is made of. */
const pageLabels = 'src/portal/state-labels.ts'
const pageStamp = 'dist/.page'
/** Compiled by `npm run wasm`: its compiler is larger than all other packages of a start. */
const wasm = 'src/json/wasm/json-bytes.wasm'
const buildFilesStamp = 'dist/.build-files'
const buildStates = [programState, programStamp, testState, testStamp, buildFilesStamp, pageStamp]

const programFolders = ['src', 'plugins']
const testFolders = ['test']

/** How long a process waits before it looks at the lock again. */
const lockRetryMs = 100

const progressIntervalMs = 1000

const has = flag => process.argv.includes(flag)
const withTests = !has('--without-tests')
const isBuild = has('--build')

const installStep = { title: 'installing packages', isDone: isInstalled, run: install }
const buildSteps = [
  { title: 'compiling', isDone: isProgramCompiled, run: compileProgram },
  { title: 'parsing method tables, compiling schemas, bundling', isDone: areBuildFilesWritten, run: writeBuildFiles },
  { title: 'building the dashboard', isDone: isPageBuilt, run: buildPage },
  ...(withTests ? [{ title: 'compiling the tests', isDone: areTestsCompiled, run: compileTests }] : []),
]
const steps = [installStep, ...(has('--packages') ? [] : buildSteps)]

checkNode()
if (isBuild || !steps.every(step => step.isDone())) await withLock(runSteps)

function checkNode() {
  const minVersion = JSON.parse(readFileSync('package.json', 'utf8')).engines.node.replace('>=', '')
  const isOld = minVersion.localeCompare(process.versions.node, 'en', { numeric: true }) > 0
  if (isOld) fail(`Node.js ${process.versions.node} is too old: ${minVersion} or newer is needed`)
}

async function runSteps() {
  if (isBuild) for (const file of buildStates) rmSync(file, { force: true })
  const startMs = Date.now()
  for (const step of steps) if (!step.isDone()) await runStep(step)
  log(`done in ${secondsSince(startMs)} s`)
}

/** On a terminal, the line of a step counts the seconds. */
async function runStep({ title, run }) {
  if (!process.stderr.isTTY) log(title)
  const startMs = Date.now()
  const showProgress = () => process.stderr.write(`\r\x1b[Kset-up: ${title} ${secondsSince(startMs)} s`)
  const timer = process.stderr.isTTY ? setInterval(showProgress, progressIntervalMs) : undefined
  if (timer !== undefined) showProgress()
  try {
    await run()
  } finally {
    clearInterval(timer)
    if (timer !== undefined) process.stderr.write('\n')
  }
}

function secondsSince(startMs) {
  return Math.round((Date.now() - startMs) / 1000)
}

/** Two set-ups at once (of `npm start` and `npm test`, say) would overwrite each other's files: the second waits for the first. */
async function withLock(work) {
  mkdirSync(dirname(lock), { recursive: true })
  let owner = takeLock()
  if (owner !== undefined) log(`waiting for the set-up that process ${owner} runs (if it does not: delete ${lock})`)
  while (owner !== undefined) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, lockRetryMs)
    owner = takeLock()
  }
  process.on('exit', () => rmSync(lock, { force: true }))
  await work()
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

/**
 * True when node_modules holds what package-lock.json requires: npm lists what it installed in a file of the same form. It also lists there
 * what `--package-lock-only` locks.
 */
function isInstalled() {
  const installed = readIfExists(installedList)
  if (installed === undefined || !existsSync(lockFile)) return installed !== undefined
  const found = JSON.parse(installed).packages
  const locked = JSON.parse(readIfExists(lockFile)).packages
  const isFound = path => found[path]?.version === locked[path].version && existsSync(path)
  return requiredPaths(locked).every(path => isFound(path) || (locked[path].optional && !found[path]))
}

/** The packages that are locked; without tests, those that package.json leads to. */
function requiredPaths(locked) {
  const paths = new Set(withTests ? Object.keys(locked) : [''])
  // A Set that grows while it is iterated passes on what was added.
  for (const path of paths) for (const required of dependencyPaths(locked, path)) paths.add(required)
  paths.delete('')
  return [...paths]
}

/** Where the dependencies of the package at `path` are, without optional peers, which whoever needs them installs. */
function dependencyPaths(locked, path) {
  const { dependencies, devDependencies, optionalDependencies, peerDependencies = {}, peerDependenciesMeta = {} } = locked[path]
  const peers = Object.keys(peerDependencies).filter(name => !peerDependenciesMeta[name]?.optional)
  const names = [...Object.keys({ ...dependencies, ...devDependencies, ...optionalDependencies }), ...peers]
  return names.map(name => findPackage(locked, path, name)).filter(found => found !== undefined)
}

/** As Node.js finds it: in the node_modules of the package, else in those above. */
function findPackage(locked, path, name) {
  const found = [path, 'node_modules', name].filter(part => part !== '').join('/')
  if (locked[found] !== undefined) return found
  return path === '' ? undefined : findPackage(locked, path.slice(0, Math.max(0, path.lastIndexOf('node_modules/') - 1)), name)
}

async function install() {
  // `npm ci` begins by removing what other processes of this folder may use; `npm install` adds what is missing.
  const command = existsSync(lockFile) && !existsSync(installedList) ? ['ci'] : ['install', '--no-save']
  const workspaces = withTests ? [] : ['--workspaces=false']
  // The compiler and the local node are dev dependencies, which NODE_ENV=production would leave out.
  await run('npm', [...command, ...workspaces, '--include=dev', '--no-audit', '--no-fund', '--loglevel=error'])
}

function isProgramCompiled() {
  return readIfExists(programStamp) === programFingerprint()
}

async function compileProgram() {
  const stamp = programFingerprint()
  rmSync(programStamp, { force: true })
  await compile('tsconfig.json')
  copyFileSync(wasm, 'dist/src/json/json-bytes.wasm')
  removeOrphans(programFolders)
  writeFileSync(programStamp, stamp)
}

function programFingerprint() {
  return fingerprint([...sourcesIn(programFolders), wasm, 'tsconfig.json', lockFile])
}

function areTestsCompiled() {
  return readIfExists(testStamp) === testFingerprint()
}

async function compileTests() {
  const stamp = testFingerprint()
  rmSync(testStamp, { force: true })
  await compile('test/tsconfig.json')
  removeOrphans(testFolders)
  writeFileSync(testStamp, stamp)
}

function testFingerprint() {
  return fingerprint([programStamp, ...sourcesIn(testFolders), 'test/tsconfig.json'])
}

function compile(project) {
  return runNode('node_modules/typescript/bin/tsc', ['--project', project])
}

function sourcesIn(folders) {
  return filesIn('.', folders).filter(file => file.endsWith('.ts') && !file.startsWith(`${pageFolder}/`))
}

/** Removes compiled files that have no source any more: a deleted test would still run. What tests compile of the page stays. */
function removeOrphans(folders) {
  const stems = new Set(sourcesIn(folders).map(file => file.slice(0, -'.ts'.length)))
  const compiled = filesIn('dist', folders).filter(file => file.endsWith('.d.ts') && !file.startsWith(`${pageFolder}/`))
  for (const stem of compiled.map(file => file.slice(0, -'.d.ts'.length)).filter(stem => !stems.has(stem))) {
    for (const ending of ['.d.ts', '.js', '.js.map']) rmSync(join('dist', stem + ending), { force: true })
  }
}

function areBuildFilesWritten() {
  return readIfExists(buildFilesStamp) === buildFilesFingerprint()
}

async function writeBuildFiles() {
  rmSync(buildFilesStamp, { force: true })
  await runNode('dist/src/cli/write-build-files.js', [])
  writeFileSync(buildFilesStamp, buildFilesFingerprint())
}

function buildFilesFingerprint() {
  return fingerprint([programStamp, ...filesIn('.', ['configs/methods'])])
}

function isPageBuilt() {
  return readIfExists(pageStamp) === pageFingerprint()
}

async function buildPage() {
  rmSync(pageStamp, { force: true })
  rmSync('dist/page', { recursive: true, force: true })
  await runNode('node_modules/vite/bin/vite.js', ['build', '--config', `${pageFolder}/vite.config.ts`, '--logLevel', 'warn'])
  writeFileSync(pageStamp, pageFingerprint())
}

function pageFingerprint() {
  return fingerprint([...filesIn('.', [pageFolder]).filter(file => !statSync(file).isDirectory()), pageLabels, lockFile])
}

function fingerprint(files) {
  const hash = createHash('sha256')
  for (const file of files) hash.update(`${file}\n`).update(existsSync(file) ? readFileSync(file) : '')
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
  return run(process.execPath, [script, ...args])
}

/** The output of the program is shown only when the program fails. */
async function run(program, args) {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], shell: process.platform === 'win32' && program === 'npm' })
  const output = []
  for (const stream of [child.stdout, child.stderr]) stream.on('data', chunk => output.push(chunk))
  const failure = await new Promise(resolve => {
    child.on('error', error => resolve(`: ${error.message}`))
    child.on('close', code => resolve(code === 0 ? undefined : ''))
  })
  if (failure === undefined) return
  process.stderr.write(process.stderr.isTTY ? '\n' : '')
  process.stderr.write(Buffer.concat(output))
  fail(`${[program, ...args].join(' ')} failed${failure}`)
}

function log(line) {
  console.error(`set-up: ${line}`)
}

function fail(line) {
  log(line)
  process.exit(1)
}
