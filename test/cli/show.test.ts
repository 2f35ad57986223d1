import t from 'tap'
import { parseAllDocuments } from 'yaml'
import { exitCodes } from '../../src/cli/command.ts'
import { createShowCommand } from '../../src/cli/show.ts'
import { networkYaml, stubPlugins, writeConfig } from '../config/config-fixture.ts'
import { runCommand } from './run-command.ts'

const key = '0123456789abcdef0123456789abcdef'
const pipeline = `  - shape: { mark: "\${MARK:-x}" }
  - login:
  - use: rate-limit
    name: slow
    with: { calls: 5 }
  - route:
      upstreams: [{ name: absent, url: "\${ABSENT}" }, { name: own, url: "https://user:${key}@node.example.org/v3/${key}" }]
  - ask:
`
const files = {
  'gateway.yaml': `store: redis://:${key}@127.0.0.1:6379\nplans: { core: { dailyCredits: 1000 } }\nlisten: { admin: 127.0.0.1:8082 }\nadmin: { token: ${key} }\n`,
  'networks/main-chain.yaml': networkYaml('main-chain', pipeline).replace('hosts', 'optional: true\nhosts'),
  'networks/other.yaml': networkYaml('other', pipeline.replace(/, \{ name: own[^}]*\}/, '')).replace('hosts', 'optional: true\nhosts'),
}

t.test('show prints the effective configuration: defaults marked, omitted upstreams gone, secrets masked', async t => {
  const dir = writeConfig(t.testdir(), files)
  const { code, out } = await runCommand(createShowCommand(stubPlugins), ['--config', dir])
  const text = out.join('\n')
  t.equal(code, exitCodes.ok)
  t.notMatch(text, key)
  t.match(text, /^# .*gateway.yaml$/m)
  t.match(text, /^ {2}body: 1MiB # default$/m)
  t.match(text, /^ {2}admin: 127.0.0.1:8082$/m, 'no comment at a value of the file')
  t.match(text, /^# other is not served: set ABSENT$/m)
  const [gateway, network] = parseAllDocuments(text).map(document => document.toJS() as unknown)
  t.match(gateway, { store: 'redis://***@127.0.0.1:6379', admin: { token: '***' }, drain: { grace: '5s' } })
  t.match(network, {
    network: 'main-chain',
    pipeline: [
      { shape: { strict: false, mark: 'x' } },
      { login: {} },
      { use: 'rate-limit', name: 'slow', with: { calls: 5, window: '1s', exempt: [] } },
      { route: { upstreams: [{ name: 'own', url: 'https://***@node.example.org/***', weight: 1 }] } },
      { ask: { timeout: '10s' } },
    ],
  })
})

t.test('show NETWORK prints one network, or why it is not served; --json prints JSON', async t => {
  const dir = writeConfig(t.testdir(), files)
  const show = (...args: readonly string[]) => runCommand(createShowCommand(stubPlugins), [...args, '--config', dir])
  t.match(JSON.parse((await show('main-chain', '--json')).out.join('')), { networks: { 'main-chain': { chainId: 1 } }, unserved: [] })
  t.same(await show('other'), { code: exitCodes.ok, out: ['# other is not served: set ABSENT'], err: [] })
  t.match(await show('main-chian'), { code: exitCodes.usage, err: ['unknown network "main-chian"; did you mean `main-chain`?'] })
  const broken = writeConfig(t.testdir({ broken: {} }), { ...files, 'gateway.yaml': 'plan: 1\n' })
  t.match(await runCommand(createShowCommand(stubPlugins), ['--config', broken]), { code: exitCodes.config, out: [] })
})
