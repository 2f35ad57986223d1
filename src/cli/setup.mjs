// Brings a checkout to the point where it runs, and does nothing when it is there already. Called by npm before
// `start`, `test`, `bench`, `simulate` and `soak`. Plain JavaScript without dependencies: it runs before there are any.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))))
process.chdir(root)

const lockFile = 'package-lock.json'
const lock = 'dist/.setup.lock'
const buildStamp = 'dist/.sources'
const tapStamp = 'node_modules/.tap-build'

const steps = [
  { title: 'installing packages (half a minute)', isDone: isInstalled, run: install },
  { title: 'compiling', isDone: isCompiled, run: compile },
  ...(process.argv.includes('--tests') ? [{ title: 'preparing tap', isDone: isTapBuilt, run: buildTap }] : []),
]

checkNode()
if (!steps.every(step => step.isDone())) alone(() => steps.forEach(take))

function checkNode() {
  const wanted = JSON.parse(readFileSync('package.json', 'utf8')).engines.node.replace('>=', '')
  const isOld = wanted.localeCompare(process.versions.node, 'en', { numeric: true }) > 0
  if (isOld) fail(`Node.js ${process.versions.node} is too old: ${wanted} or newer is needed`)
}

function take(step) {
  if (step.isDone()) return
  say(step.title)
  step.run()
}

/** Two at once (say `npm start` and `npm test`) would tear each other's files: the second waits for the first. */
function alone(work) {
  mkdirSync(dirname(lock), { recursive: true })
  let owner = takeLock()
  if (owner !== undefined) say(`waiting for the set-up that process ${owner} runs (if it does not: delete ${lock})`)
  while (owner !== undefined) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100)
    owner = takeLock()
  }
  process.on('exit', () => rmSync(lock, { force: true }))
  work()
}

/** Undefined when the lock is ours now, else the process that holds it. The lock of a dead process is taken over. */
function takeLock() {
  try {
    writeFileSync(lock, String(process.pid), { flag: 'wx' })
    return undefined
  } catch (error) {
    if (error.code !== 'EEXIST') throw error
  }
  const owner = Number(read(lock))
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

/** Is in node_modules what package-lock.json asks for? npm lists what it installed in a file of the same form. */
function isInstalled() {
  const installed = read('node_modules/.package-lock.json')
  if (installed === undefined || !existsSync(lockFile)) return installed !== undefined
  const found = JSON.parse(installed).packages
  return Object.entries(JSON.parse(read(lockFile)).packages).every(
    ([place, { version, optional }]) => place === '' || (optional && !found[place]) || found[place]?.version === version,
  )
}

function install() {
  const verb = existsSync(lockFile) ? 'ci' : 'install'
  // The compiler and the local node are dev dependencies, which NODE_ENV=production would leave out.
  run('npm', [verb, '--include=dev', '--no-audit', '--no-fund', '--loglevel=error'])
}

function isCompiled() {
  return read(buildStamp) === fingerprint([...sources(), 'tsconfig.json', lockFile])
}

function compile() {
  const stamp = fingerprint([...sources(), 'tsconfig.json', lockFile])
  rmSync(buildStamp, { force: true })
  runNode('node_modules/typescript/bin/tsc', [])
  removeOrphans()
  chmodSync('dist/src/main.js', 0o755)
  writeFileSync(buildStamp, stamp)
}

function sources() {
  return filesIn('.', ['src', 'plugins', 'test']).filter(file => file.endsWith('.ts'))
}

/** A compiled file whose source is gone would still be found: a deleted test would still run. */
function removeOrphans() {
  const stems = new Set(sources().map(file => file.slice(0, -'.ts'.length)))
  const compiled = filesIn('dist', ['src', 'plugins', 'test']).filter(file => file.endsWith('.d.ts'))
  for (const stem of compiled.map(file => file.slice(0, -'.d.ts'.length)).filter(stem => !stems.has(stem))) {
    for (const ending of ['.d.ts', '.js', '.js.map']) rmSync(join('dist', stem + ending), { force: true })
  }
}

function isTapBuilt() {
  return read(tapStamp) === tapBuild()
}

/** tap is compiled for its list of plugins, with absolute paths; a run of tests that must do it first fails. */
function buildTap() {
  runNode('node_modules/tap/dist/esm/run.mjs', ['build'])
  writeFileSync(tapStamp, tapBuild())
}

function tapBuild() {
  return `${root} ${fingerprint(['.taprc', lockFile])}`
}

function fingerprint(files) {
  const hash = createHash('sha256')
  for (const file of files) hash.update(`${file}\n`).update(read(file) ?? '')
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

function read(file) {
  return existsSync(file) ? readFileSync(file, 'utf8') : undefined
}

function runNode(script, args) {
  run(process.execPath, [script, ...args])
}

/** The tool's own words are shown only when it fails. */
function run(program, args) {
  const { status, error, stdout, stderr } = spawnSync(program, args, {
    encoding: 'utf8',
    maxBuffer: 64 << 20,
    shell: process.platform === 'win32' && program === 'npm',
  })
  if (status === 0) return
  process.stderr.write(`${stdout ?? ''}${stderr ?? ''}`)
  fail(`${[program, ...args].join(' ')} failed${error ? `: ${error.message}` : ''}`)
}

function say(line) {
  console.error(`set-up: ${line}`)
}

function fail(line) {
  say(line)
  process.exit(1)
}
