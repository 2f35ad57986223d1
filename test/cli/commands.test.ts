import t from '../support/tap.ts'
import { formatTable } from '../../src/cli/table-output.ts'
import { formatCommandHelp, formatUsage } from '../../src/cli/command.ts'
import { commandLoaders } from '../../src/cli/commands.ts'
import { createDeployment } from '../support/deployment.ts'

const commands = await Promise.all(Object.values(commandLoaders).map(load => load()))

void t.test('every command is loaded by its name', async t => {
  t.same(
    commands.map(({ name }) => name),
    Object.keys(commandLoaders),
  )
})

void t.test('the usage of a command names exactly the options and positional arguments that it describes', async t => {
  for (const { name, usage, options, positionals } of commands) {
    const namesOf = (pattern: RegExp) => new Set(usage.flatMap(form => Array.from(form.matchAll(pattern), ([, found = '']) => found)))
    t.same(namesOf(/--([\w-]+)/g), new Set(Object.keys(options)), name)
    t.same(namesOf(/(?<!--[\w-]+) ([A-Z_]+)(?= |$)/g), new Set(Object.keys(positionals)), name)
  }
})

void t.test('the help of a command describes every option and argument in a sentence', async t => {
  for (const command of commands) {
    for (const { description } of Object.values(command.options)) t.match(description, /^[A-Z].*\.$/, command.name)
    for (const description of Object.values(command.positionals)) t.match(description, /^[A-Z].*\.$/, command.name)
    const help = formatCommandHelp(command).join('\n')
    for (const name of Object.keys(command.options)) t.match(help, new RegExp(`^  --${name}\\b.*  [A-Z]`, 'm'), command.name)
  }
})

void t.test('wrong commands and options are a usage error', async t => {
  const deployment = createDeployment({ networks: {} })
  t.teardown(() => deployment.remove())
  t.match(await deployment.run('nonsense'), { code: 64, stderr: /unknown command "nonsense"\n/ })
  t.match(await deployment.run('chek'), { code: 64, stderr: /unknown command "chek"; did you mean `check`\?/ })
  t.match(await deployment.run('start', '--nonsense'), { code: 64, stderr: /nonsense/ })
  t.match(await deployment.run('start', '--help'), {
    code: 0,
    stdout: /^  tollgate start \[--config DIR\]\n\n  --config DIR  .*configs\.$/m,
  })
})

t.test('a usage error is followed by the forms of its subcommand, and by where the options are described', async t => {
  const usage = ['keys add ACCOUNT', 'keys list ACCOUNT']
  const end = ['', '`tollgate keys --help` describes the arguments and options.']
  t.same(formatUsage({ name: 'keys', usage }, ['list', '--x']), ['', '  tollgate keys list ACCOUNT', ...end])
  for (const args of [[], ['lst']])
    t.same(formatUsage({ name: 'keys', usage }, args), ['', '  tollgate keys add ACCOUNT', '  tollgate keys list ACCOUNT', ...end])
})

t.test('a table may have as many rows as an installation has accounts', async t => {
  const rows = Array.from({ length: 200_000 }, (_, i) => [`account-${i}`, 'core'])
  const lines = formatTable(['NAME', 'PLAN'], rows)
  t.equal(lines.length, 200_001)
  t.same(lines.slice(0, 2), ['NAME            PLAN', 'account-0       core'])
})
