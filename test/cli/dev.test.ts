import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { stripVTControlCharacters } from 'node:util'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import { findAnvilOnPath } from '../../src/cli/anvil.ts'
import { childrenOf, createDeployment, isRunning, mainPath, networkFile } from '../support/deployment.ts'
import { post } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'

const skipWithoutScript = process.platform === 'linux' && existsSync('/usr/bin/script') ? false : 'no script(1) of util-linux'

interface DevProcess {
  readonly pid: number
  readonly curl: string
  /** The lines of the output up to `curl`. */
  readonly lines: readonly string[]
  /** Resolves with the exit code. */
  stop(signal?: NodeJS.Signals): Promise<number | null>
}

const startDevCommand = async (t: Test, dir?: string, cwd = process.cwd()): Promise<DevProcess> => {
  const args = dir === undefined ? [] : ['--config', dir]
  const child = spawn('env', ['-u', 'NODE_OPTIONS', process.execPath, mainPath, 'dev', ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
    cwd,
  })
  t.teardown(() => child.kill('SIGTERM')) // which ends its node too
  const exited = once(child, 'close') as Promise<[number | null]>
  const lines: string[] = []
  const curl = await new Promise<string>((resolve, reject) => {
    createInterface(child.stdout).on('line', line => {
      lines.push(line)
      if (line.startsWith('curl ')) resolve(line)
    })
    void exited.then(([code]) => reject(new Error(`tollgate dev exited with ${code}`)))
  })
  return {
    pid: child.pid!,
    curl,
    lines,
    async stop(signal = 'SIGTERM') {
      child.kill(signal)
      return (await exited)[0]
    },
  }
}

t.test('tollgate dev', async t => {
  const network = networkFile('devnet', [])
  const pipeline = (network['pipeline'] as object[]).map(step =>
    'failover' in step ? { failover: { upstreams: [{ name: 'anvil', url: '${DEVNET_URL}', ws: '${DEVNET_WS_URL}' }] } } : step,
  )
  const deployment = createDeployment({
    gateway: { admin: { token: 'canary-admin-token' } },
    networks: { devnet: { ...network, optional: true, pipeline } },
  })
  t.teardown(() => deployment.remove())

  await t.test('prints a working curl command, starts a real node, and stops both', async t => {
    const firstRun = await startDevCommand(t, deployment.dir)
    const [, url = '', body = ''] = /^curl -s (\S+) .*-d '(.*)'$/.exec(firstRun.curl) ?? []
    t.match((await post(url, body)).json(), { jsonrpc: '2.0', id: 1, result: '0x0' })
    const [, readiness = ''] = firstRun.lines.map(line => /^ *Admin +(\S+)/.exec(line)).find(match => match !== null) ?? []
    await waitUntil(async () => (await (await fetch(`${readiness}?verbose`)).text()).includes('"subscribed":true'))
    const [, operatorPage = ''] = firstRun.lines.map(line => /^ *Operator +(\S+)/.exec(line)).find(match => match !== null) ?? []
    t.match(await (await fetch(operatorPage)).text(), /<html/)
    t.notMatch(firstRun.lines.join(), 'canary-admin-token')
    t.equal(await firstRun.stop(), 0)
    t.equal(firstRun.lines.at(-1), 'The gateway and the node have stopped.')
    t.notMatch(firstRun.lines.join('\n'), /\u001b|credits/, 'off a terminal there is no color, and no line for a call')
  })

  t.test('stores its key with mode 600, and prints the same key in the second run', async t => {
    const file = join(deployment.dir, '../data/dev.key')
    t.equal(statSync(file).mode & 0o777, 0o600)
    const stored = readFileSync(file, 'utf8').trim()
    const secondRun = await startDevCommand(t, deployment.dir)
    t.ok(stored !== '' && secondRun.curl.includes(stored))
    t.equal(await secondRun.stop(), 0)
  })

  await t.test('applies changed files, and says what has changed', async t => {
    const run = await startDevCommand(t, deployment.dir)
    const [, url = '', body = ''] = /^curl -s (\S+) .*-d '(.*)'$/.exec(run.curl) ?? []
    const costOf = async () => (await post(url, body)).headers['x-tollgate-credits']
    t.equal(await costOf(), '80')
    const priced = pipeline.map(step => ('credits' in step ? { credits: { costs: { eth_blockNumber: 7 } } } : step))
    deployment.writeNetwork('devnet', { ...network, optional: true, pipeline: priced })
    await waitUntil(() => run.lines.includes('Reloaded: + devnet.credits.costs'))
    t.equal(await costOf(), '7')
    deployment.writeNetwork('devnet', { ...network, optional: true, pipeline: [] })
    await waitUntil(() => run.lines.includes('Not reloaded: what ran before serves on.'))
    const problem = run.lines.findIndex(line => /devnet\.yaml:1:\d+: /.test(line))
    t.match(run.lines[problem + 2], /^ *\| +\^/, 'the problem is shown with its caret')
    t.notOk(
      run.lines.some(line => line.startsWith('{')),
      'no line is JSON',
    )
    t.equal(await costOf(), '7')
    deployment.writeNetwork('devnet', { ...network, optional: true, pipeline })
    t.equal(await run.stop(), 0)
  })

  t.test(
    'on a terminal it prints a line for each call, and Ctrl-C ends with the line that it has stopped',
    { skip: skipWithoutScript },
    async t => {
      const command = ['env', '-u', 'NODE_OPTIONS', process.execPath, mainPath, 'dev', '--config', deployment.dir].map(word => `'${word}'`)
      // script(1) gives the command a terminal; what is typed goes to all processes of the terminal.
      const child = spawn('script', ['--quiet', '--return', '--command', `exec ${command.join(' ')}`, '/dev/null'])
      t.teardown(() => child.kill('SIGTERM'))
      let output = ''
      child.stdout.setEncoding('utf8').on('data', text => (output += stripVTControlCharacters(text)))
      await waitUntil(() => output.includes('Ctrl-C stops'))
      const [, url = '', body = ''] = /^curl -s (\S+) .*-d '(.*)'\r?$/m.exec(output) ?? []
      await post(url, body)
      await post(url, body.replace('eth_blockNumber', 'eth_blokNumber'))
      const line = (method: string, rest: string) => new RegExp(`^\\d\\d:\\d\\d:\\d\\d  ${method} +dev +${rest}\r?$`, 'm')
      await waitUntil(() => line('eth_blockNumber', '\\d+ credits +[\\d.]+ ms  ok  anvil').test(output))
      await waitUntil(() => line('eth_blokNumber', '0 credits +[\\d.]+ ms  method \\(-32601\\)').test(output))
      const exited = once(child, 'close')
      child.stdin.write('\u0003')
      t.same(await exited, [0, null])
      t.match(
        output,
        /Ctrl-C stops the gateway and the node\.\r?\n[^\n]*eth_blockNumber[^\n]*\n[^\n]*eth_blokNumber[^\n]*\n\^C\r?\n.*have stopped\.\r?\n$/,
      )
    },
  )

  t.test('goes on when nobody reads its output, and ends in order', async t => {
    const child = spawn('env', ['-u', 'NODE_OPTIONS', process.execPath, mainPath, 'dev', '--config', deployment.dir])
    t.teardown(() => child.kill('SIGTERM'))
    child.stdout.destroy()
    const ended = Promise.all([once(child, 'exit'), text(child.stderr)])
    await waitUntil(() => childrenOf(child.pid!).length > 0)
    child.kill('SIGTERM')
    t.same(await ended, [[0, null], ''])
  })

  t.test('ends with its terminal, and the node with it', async t => {
    const run = await startDevCommand(t, deployment.dir)
    const nodes = childrenOf(run.pid)
    t.equal(nodes.length, 1)
    t.equal(await run.stop('SIGHUP'), 0)
    t.notOk(nodes.some(isRunning))
  })
})

t.test('tollgate dev in an empty folder writes a configuration, and calls reach its node', async t => {
  const cwd = t.testdir()
  const gatewayFile = join(cwd, 'configs/gateway.yaml')
  // The addresses that are written are busy, whoever listens there: the first run ends after it has written.
  const holder = createServer().on('error', () => undefined)
  t.teardown(() => holder.close())
  await new Promise(resolve => holder.once('error', resolve).listen(8080, '127.0.0.1', () => resolve(undefined)))
  const first = spawnSync(process.execPath, [mainPath, 'dev'], { cwd, encoding: 'utf8' })
  t.match(first, { status: 1, stdout: 'Wrote a configuration to configs.\n', stderr: /8080/ })
  writeFileSync(gatewayFile, readFileSync(gatewayFile, 'utf8').replace(/(127\.0\.0\.1):808\d/g, '$1:0'))
  const second = await startDevCommand(t, undefined, cwd)
  const [, url = '', body = ''] = /^curl -s (\S+) .*-d '(.*)'$/.exec(second.curl) ?? []
  t.match((await post(url, body)).json(), { result: '0x0' })
  t.notMatch(second.lines.join(), 'Wrote')
  t.equal(await second.stop(), 0)
})

t.test('anvil is found on the PATH: the binary behind the wrapper of its package, else the program itself', async t => {
  // Not below the repository, where the package would be found again.
  const dir = realpathSync(mkdtempSync(join(tmpdir(), 'tollgate-path-')))
  t.teardown(() => rmSync(dir, { recursive: true }))
  for (const folder of ['package', 'foundry', 'other']) mkdirSync(join(dir, folder))
  symlinkSync(realpathSync('node_modules/.bin/anvil'), join(dir, 'package/anvil'))
  writeFileSync(join(dir, 'foundry/anvil'), '', { mode: 0o755 })
  writeFileSync(join(dir, 'other/anvil'), '')
  const find = (...folders: readonly string[]) => findAnvilOnPath(folders.map(folder => join(dir, folder)).join(delimiter))
  t.match(find('other', 'package', 'foundry'), /@foundry-rs\/anvil-[^/]+\/bin\/anvil$/)
  t.equal(find('none', 'other', 'foundry'), join(dir, 'foundry/anvil'))
  t.equal(find('other'), undefined)
})
