import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import t from 'tap'
import { createDeployment, networkFile } from '../support/deployment.ts'
import { post } from '../support/rpc-client.ts'

const startDevCommand = async (dir: string): Promise<{ curl: string; stop(): Promise<number | null> }> => {
  const child = spawn('env', ['-u', 'NODE_OPTIONS', process.execPath, 'dist/src/main.js', 'dev', '--config', dir], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exited = once(child, 'close') as Promise<[number | null]>
  const curl = await new Promise<string>((resolve, reject) => {
    createInterface(child.stdout).on('line', line => line.startsWith('curl ') && resolve(line))
    void exited.then(([code]) => reject(new Error(`tollgate dev exited with ${code}`)))
  })
  return {
    curl,
    async stop() {
      child.kill('SIGTERM')
      return (await exited)[0]
    },
  }
}

t.test('tollgate dev', async t => {
  const network = networkFile('devnet', [])
  const pipeline = (network['pipeline'] as object[]).map(step =>
    'failover' in step ? { failover: { upstreams: [{ name: 'anvil', url: '${DEVNET_URL}' }] } } : step,
  )
  const deployment = createDeployment({ networks: { devnet: { ...network, optional: true, pipeline } } })
  t.teardown(() => deployment.remove())

  const key = await t.test('prints a working curl command, starts a real node, and stops both', async t => {
    const firstRun = await startDevCommand(deployment.dir)
    const [, url = '', body = ''] = /^curl -s (\S+) .*-d '(.*)'$/.exec(firstRun.curl) ?? []
    t.match((await post(url, body)).json(), { jsonrpc: '2.0', id: 1, result: '0x0' })
    t.equal(await firstRun.stop(), 0)
    return url
  })

  t.test('stores its key with mode 600, and prints the same key in the second run', async t => {
    const file = join(deployment.dir, '../data/dev.key')
    t.equal(statSync(file).mode & 0o777, 0o600)
    const secondRun = await startDevCommand(deployment.dir)
    t.match(secondRun.curl, readFileSync(file, 'utf8').trim())
    t.equal(await secondRun.stop(), 0)
    t.notOk(key instanceof Error)
  })
})
