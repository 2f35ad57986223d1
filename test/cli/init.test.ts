import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from '../support/tap.ts'
import * as viemChains from 'viem/chains'
import { plugins } from '../../plugins/index.ts'
import { wellKnownChains } from '../../src/config/chains.ts'
import { createCheckCommand } from '../../src/cli/check.ts'
import { exitCodes } from '../../src/cli/command.ts'
import { urlVariable } from '../../src/cli/config-template.ts'
import { initCommand } from '../../src/cli/init.ts'
import { networksCommand } from '../../src/cli/networks.ts'
import { parseDuration } from '../../src/config/formats.ts'
import { loadConfig } from '../../src/config/load.ts'
import { dryRunNetworks } from '../../src/core/dry-run.ts'
import { runCommand } from './run-command.ts'

t.test('init writes a configuration that check accepts without a warning, and changes none that exists', async t => {
  const dir = join(t.testdir(), 'configs')
  const init = () => runCommand(initCommand, ['--config', dir])
  t.equal((await init()).code, exitCodes.ok)
  const checked = await runCommand(createCheckCommand(plugins, dryRunNetworks), ['--strict', '--config', dir])
  t.match(checked, { code: exitCodes.ok, out: ['no problems; 1 network served', /^ {2}devnet {2}envelope > /], err: [] })
  t.match(
    readFileSync(join(dir, 'networks/devnet.yaml'), 'utf8'),
    /^# yaml-language-server: \$schema=..\/schemas\/network.json\n# .*\nnetwork: devnet\n/,
  )
  t.match(await init(), { code: exitCodes.failed, out: [], err: [/gateway.yaml exists already; nothing is written$/] })
  const inFile = await runCommand(initCommand, ['--config', join(dir, 'gateway.yaml', 'more')])
  t.match(inFile, { code: exitCodes.failed, out: [], err: [/^tollgate: cannot write .*: .*gateway.yaml is a file, not a folder$/] })
})

t.test('networks add writes a network of the list that check accepts, with all plugins of the shipped networks', async t => {
  const dir = join(t.testdir(), 'configs')
  await runCommand(initCommand, ['--config', dir])
  const add = (...args: readonly string[]) => runCommand(networksCommand, ['add', ...args, '--config', dir])
  for (const { chainId } of wellKnownChains) {
    const { code, out } = await add(String(chainId))
    t.equal(code, exitCodes.ok, `${chainId}`)
    t.match(out.join('\n'), `check --online --config ${dir}\n`)
  }
  const env = Object.fromEntries(wellKnownChains.map(({ name }) => [urlVariable(name), 'http://127.0.0.1:1']))
  const { problems, warnings, networks } = await loadConfig(dir, plugins, env)
  t.same([...problems, ...warnings], [])
  const shipped = (await loadConfig('configs', plugins, { ETHEREUM_MAINNET_URL: 'http://127.0.0.1:1' })).networks[0]
  for (const { name, chainId, blockTime, hosts, steps } of networks.filter(({ name }) => name !== 'devnet')) {
    const chain = wellKnownChains.find(each => each.name === name)
    t.same([chainId, blockTime, hosts], [chain?.chainId, parseDuration(chain?.blockTime ?? ''), [`${name}.localhost`]], name)
    t.same(
      steps.map(step => step.name),
      shipped?.steps.map(step => step.name),
    )
  }
  t.equal(networks.length, wellKnownChains.length + 1)
  t.match((await runCommand(networksCommand, ['list', '--config', dir])).out, [/^CHAIN ID/, /^1 +ethereum-mainnet +ETH +12s +yes$/])
  t.match(JSON.parse((await runCommand(networksCommand, ['list', '--json', '--config', dir])).out.join('')), [
    { chainId: 1, name: 'ethereum-mainnet', currency: 'ETH', blockTime: '12s', configured: true },
  ])
  t.match(await add('8453'), { code: exitCodes.failed, err: [/base-mainnet.yaml exists already; nothing is written$/] })
})

t.test('the shipped networks name their variables after themselves, as networks add does', t => {
  for (const file of readdirSync('configs/networks').filter(each => !each.endsWith('.test.yaml'))) {
    const prefix = urlVariable(file.replace('.yaml', '')).replace(/URL$/, '')
    const variables = Array.from(
      readFileSync(join('configs/networks', file), 'utf8').matchAll(/(?:url|ws): "\$\{(\w+)\}/g),
      ([, name = '']) => name,
    )
    t.not(variables.length, 0, file)
    for (const name of variables) t.ok(name.startsWith(prefix), `${file}: ${name}`)
  }
  t.end()
})

t.test('networks add takes a chain that is not in the list, by its name and block time', async t => {
  const dir = join(t.testdir(), 'configs')
  await runCommand(initCommand, ['--config', dir])
  const add = (...args: readonly string[]) => runCommand(networksCommand, ['add', ...args, '--config', dir])
  const { out } = await add(
    '0x3039',
    '--name',
    'my-chain',
    '--block-time',
    '3s',
    '--hosts',
    'my.example.org',
    '--url',
    'http://10.0.0.7:8545',
  )
  t.match(out, [/my-chain.yaml$/])
  const { networks } = await loadConfig(dir, plugins, {})
  t.match(
    networks.find(({ name }) => name === 'my-chain'),
    { chainId: 12345, blockTime: 3000, hosts: ['my.example.org'] },
  )
  t.equal((await add('1337', '--name', 'ganache', '--block-time', '1s', '--url', 'http://127.0.0.1:8545')).code, exitCodes.ok)
  t.same(
    (await loadConfig(dir, plugins, {})).networks.filter(({ devNode }) => devNode).map(({ name }) => name),
    ['devnet', 'ganache'],
    'the chain ids of development nodes',
  )
  for (const [args, message] of [
    [['12345'], 'the chain 12345 is not in the list (tollgate networks list): add --name and --block-time'],
    [['base'], 'CHAIN_ID must be a number such as 8453, not "base"'],
    [['1', '--name', 'My Chain'], '--name must be kebab-case, not "My Chain"'],
    [['1', '--block-time', '12'], '--block-time must be a duration such as 250ms or 12s, not "12"'],
    [['1', '--hosts', 'https://a.b'], '--hosts must be host names or IP addresses, without port, not "https://a.b"'],
    [['1', '--url', 'ws://a.b'], '--url must begin with http:// or https://'],
  ] as const)
    t.same(await add(...args), { code: exitCodes.usage, out: [], err: [message] }, message)
})

t.test('networks add into a new folder writes all that check needs, and names it; what exists stays as it is', async t => {
  const dir = join(t.testdir(), 'configs')
  const add = (...args: readonly string[]) => runCommand(networksCommand, ['add', ...args, '--config', dir])
  const { out } = await add('100', '--url', 'http://10.0.0.7:8545')
  t.match(out.join('\n'), /gnosis-mainnet.yaml\nwrote .*gateway.yaml\nwrote .*ethereum.yaml\n/)
  const gateway = `${readFileSync(join(dir, 'gateway.yaml'), 'utf8')}# mine\n`
  writeFileSync(join(dir, 'gateway.yaml'), gateway)
  t.match((await add('10', '--url', 'http://10.0.0.8:8545')).out, [/^wrote .*optimism-mainnet.yaml$/, /serves it at once/])
  t.equal(readFileSync(join(dir, 'gateway.yaml'), 'utf8'), gateway)
  const checked = await runCommand(createCheckCommand(plugins, dryRunNetworks), ['--strict', '--config', dir])
  t.match(checked, { code: exitCodes.ok, out: ['no problems; 2 networks served', /gnosis-mainnet/, /optimism-mainnet/], err: [] })
})

t.test('the next command is printed as the shell finds the program: with npx where npx ran it', async t => {
  for (const [env, expected] of [
    [{}, '  tollgate check '],
    [{ npm_command: 'exec' }, '  npx tollgate check '],
  ] as const) {
    const dir = join(t.testdir(), 'configs')
    const lines: string[] = []
    await initCommand.run(['--config', dir], { env, out: line => void lines.push(line), err: line => t.fail(line) })
    t.ok(lines.some(line => line.startsWith(expected)))
  }
})

t.test('the list of chains agrees with that of viem, and its names differ', t => {
  for (const { chainId, currency, blockTime, name } of wellKnownChains) {
    const known = Object.values(viemChains).filter(({ id }) => id === chainId)
    const symbols: readonly string[] = known.map(({ nativeCurrency }) => nativeCurrency.symbol)
    t.ok(symbols.includes(currency ?? ''), `${name}: ${currency}, not ${symbols}`)
    const times = known.flatMap(chain => ('blockTime' in chain ? [chain.blockTime] : []))
    const ratio = (parseDuration(blockTime) ?? 0) / (times[0] ?? parseDuration(blockTime) ?? 1)
    t.ok(ratio > 0.5 && ratio < 2, `${name}: ${blockTime}, not ${times}`)
  }
  t.equal(new Set(wellKnownChains.flatMap(({ chainId, name }) => [chainId, name])).size, 2 * wellKnownChains.length)
  t.end()
})
